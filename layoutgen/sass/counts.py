"""Exact shared-memory wavefronts of a loop, counted while the kernel's PTX is executed on the CPU.

One block is executed with two and with four full tiles along the loop; half the difference per source line is what one
tile costs, also where an iteration does two. The lines of the machine code then say which LDS or STS has which
wavefronts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from layoutgen.errors import LayoutgenError
from layoutgen.kernels import AttentionRequest, FastAttentionRequest, Request
from layoutgen.sass.pricing import PIPE_OF, width_words
from layoutgen.sass.program import Instruction, Loop

if TYPE_CHECKING:
    from layoutgen.toolchain import Compiled, KernelFile

Place = tuple[str, int]
"""File name and line."""


FEW, MANY = 2, 4
"""Tiles of the two executions that are compared."""


@dataclass(frozen=True)
class TileCounts:
    """What one warp does per tile along the loop, on average over the block's warps.

    `wavefronts` and the `least` that the same accesses could take, by line; `mma` in all.
    """

    wavefronts: Mapping[Place, Fraction]
    least: Mapping[Place, Fraction]
    mma: Fraction


def tile_shape(request: Request, tiles: int) -> tuple[int, ...]:
    """Return the shape of a launch of one block that goes through its loop for this many full tiles.

    Where queries see only keys about their own, there are as many queries as keys, and more tiles as both grow.
    """
    if isinstance(request, FastAttentionRequest) and (request.left is not None or request.right is not None):
        length = tiles * max(request.block_m, request.block_n)
        return 1, 1, 1, length, length, request.head_dim
    if isinstance(request, AttentionRequest):
        return 1, 1, 1, request.block_m, tiles * request.block_n, request.head_dim
    return 1, request.block_m, request.block_n, tiles * request.block_k * request.split_k


def count_tiles(file: KernelFile, compiled: Compiled) -> TileCounts:
    """Execute the kernel's PTX and return what one tile costs."""
    from layoutgen.cpu import LaunchReport, LineCount, Tensor, launch, parse_ptx

    module, program, names = file.load(), parse_ptx(compiled.ptx), list(file.data["SIGNATURE"])

    def run(tiles: int) -> LaunchReport:
        arrays = file.request.arrays(tile_shape(file.request, tiles))
        grid, values = module.launch_arguments(**arrays)
        given = dict(zip(names, values, strict=True)) | arrays
        arguments = []
        for name, _ in compiled.arguments:
            value = given[name]
            if hasattr(value, "data_ptr"):
                tensor = Tensor(name, value.shape, value.dtype, value.strides, writable=True)
                tensor.fill(0)
                value = tensor
            arguments.append(value)
        return launch(
            program,
            grid,
            compiled.num_warps,
            arguments,
            mma="exact",
            shared_bytes=compiled.shared_bytes,
            expect_all_written=False,
        )

    few, many = run(FEW), run(MANY)
    # Each warp's mma of a tile are those of the plan, so that the mma count the tiles of all warps.
    shares = Fraction(many.total.mma - few.total.mma, file.request.plan.instructions)
    if not shares:
        raise LayoutgenError("counts: the executed kernel did no mma per tile; the loop's tiles cannot be told")
    wavefronts, least = {}, {}
    for source, cost in many.lines.items():
        before = few.lines.get(source, LineCount())
        if cost.wavefronts != before.wavefronts:
            place = source.file.rsplit("/", 1)[-1], source.line
            wavefronts[place] = Fraction(cost.wavefronts - before.wavefronts) / shares
            least[place] = Fraction(cost.wavefronts_minimum - before.wavefronts_minimum) / shares
    return TileCounts(wavefronts, least, Fraction(many.total.mma - few.total.mma) / shares)


def loop_mma(loop: Loop) -> int:
    """Return the mma of the loop's body; an HMMA is one STEP of several, and each mma has one STEP0."""
    return sum(1 for instruction in loop.body if instruction.opcode == "HMMA" and "STEP0" in instruction.modifiers)


def wavefronts_of(loop: Loop, counts: TileCounts) -> dict[int, Fraction]:
    """Return address -> wavefronts for every LDS and STS of the loop's body.

    A loop that was unrolled goes through several tiles at once: the mma say how many. Accesses of one line share its
    wavefronts by their width; where the assembler moved some of a line's accesses out of the loop, those that are left
    have their part. An access on a line that was not counted has the conflicts of
    the worst line of its opcode. Raises LayoutgenError when there is none.
    """
    if not counts.mma:
        raise LayoutgenError("counts: the executed kernel did no mma per tile; the loop's tiles cannot be told")
    tiles = Fraction(loop_mma(loop)) / counts.mma
    accesses = defaultdict(list)
    for instruction in loop.body:
        if PIPE_OF.get(instruction.opcode) == "shared":
            if instruction.source is None:
                raise LayoutgenError(f"counts: {instruction.text} at {instruction.address:#x} has no source line")
            line = instruction.source.own
            accesses[line.file.rsplit("/", 1)[-1], line.line].append(instruction)
    strays = {place: accesses.pop(place) for place in sorted(set(accesses) - set(counts.wavefronts))}
    result = {}
    for place, instructions in accesses.items():
        words = sum(width_words(instruction) for instruction in instructions)
        there = min(Fraction(1), words / (counts.least[place] * tiles))
        for instruction in instructions:
            share = there * width_words(instruction) / words
            result[instruction.address] = counts.wavefronts[place] * tiles * share
    # The line table gives an instruction that was moved among those of another line to that line, now and then.
    for place, instructions in strays.items():
        for instruction in instructions:
            result[instruction.address] = width_words(instruction) * _worst(instruction.opcode, accesses, counts, place)
    return result


def _worst(opcode: str, accesses: Mapping[Place, list[Instruction]], counts: TileCounts, stray: Place) -> Fraction:
    """Return the largest factor of conflicts on the lines with accesses of an opcode."""
    lines = [place for place, there in accesses.items() if any(other.opcode == opcode for other in there)]
    if not lines:
        raise LayoutgenError(f"counts: the loop has shared accesses of line {stray[1]}, but none were executed there")
    return max(counts.wavefronts[place] / counts.least[place] for place in lines)
