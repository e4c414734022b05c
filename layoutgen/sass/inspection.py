"""Everything that the machine code of a kernel says about its speed, in one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from statistics import mean
from typing import TYPE_CHECKING, Any

from layoutgen.errors import LayoutgenError
from layoutgen.kernels import Request
from layoutgen.profiles import Profile, load_profile, profile_names
from layoutgen.profiles.model import Model, load_model
from layoutgen.sass.counts import count_tiles, loop_mma, wavefronts_of
from layoutgen.sass.lines import SourceLine
from layoutgen.sass.occupancy import Occupancy, occupancy
from layoutgen.sass.ports import Ports, ports
from layoutgen.sass.pricing import PIPE_OF, Price, price, width_words
from layoutgen.sass.program import Loop, Program, decode
from layoutgen.sass.simulate import REASONS, Run, Step, simulate, step

if TYPE_CHECKING:
    from layoutgen.toolchain import Compiled, KernelFile

STAGGERS = (0.0, 0.1, 0.25, 0.5)
"""How late each block starts after the one before, as shares of the bound: nothing says how blocks lie in time."""

LANES = 32


@dataclass(frozen=True)
class Prediction:
    """TFLOP/s by the model at a clock, one per stagger. Never a measurement."""

    clock_mhz: int
    tflops: tuple[float, ...]
    bound_tflops: float
    ceiling_tflops: float

    @property
    def mean(self) -> float:
        return mean(self.tflops)

    @property
    def low(self) -> float:
        return min(self.tflops)

    @property
    def high(self) -> float:
        return max(self.tflops)


@dataclass(frozen=True)
class Inspection:
    """A compiled kernel, read and priced. `unpriced` are the opcodes of the loop that the model does not know.

    `name` is that of the kernel's file.
    """

    name: str
    compiled: Compiled
    request: Request
    profile: Profile
    model: Model
    program: Program
    loop: Loop
    wavefronts: Mapping[int, float]
    priced: Mapping[int, Price]
    unpriced: tuple[str, ...]
    occupied: Occupancy

    def where(self, source: SourceLine | None) -> str:
        """Write a source line with the name of the kernel's file.

        The code may come from Triton's cache, and then names the file that the same source was first compiled from.
        """
        if source is None:
            return "?"
        return str(source).replace(f"{source.outermost.file}:", f"{self.name}.py:")

    def with_model(self, model: Model) -> Inspection:
        """Return the same kernel priced by another model."""
        priced, unpriced = price_loop(self.loop, model, self.wavefronts)
        return replace(self, model=model, priced=priced, unpriced=unpriced)

    @cached_property
    def ports(self) -> Ports:
        return ports(self.priced, self.loop.body, self.occupied, self.model)

    @property
    def pipes(self) -> Counter[str]:
        """How many instructions of the loop go to each pipe (`pricing.PIPES`), most first."""
        counted = Counter(priced.pipe for priced in self.priced.values())
        return Counter(dict(counted.most_common()))

    @property
    def others(self) -> tuple[str, ...]:
        """The kernels that a call launches beside this one, and of which nothing is said here."""
        return tuple(name for name in self.request.kernels if name != self.compiled.kernel)

    @property
    def hmma(self) -> int:
        return self.loop.count("HMMA")

    @property
    def instructions_per_hmma(self) -> float:
        return len(self.loop.body) / self.hmma

    @property
    def load_bytes_per_hmma(self) -> float:
        """Bytes that a warp reads from shared memory per HMMA, all lanes counted."""
        loads = (i for i in self.loop.body if i.opcode == "LDS")
        return sum(4 * LANES * width_words(i) for i in loads) / self.hmma

    @property
    def flop(self) -> float:
        """Useful operations of one block and iteration: padding of the head dim does not count."""
        unit = next(iter(self.request.tilings.values())).unit
        return loop_mma(self.loop) * 2 * prod(unit.shape) * self.compiled.num_warps * self.request.useful

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The loop as the simulation sees it. Raises LayoutgenError when an opcode has no price."""
        if self.unpriced:
            raise LayoutgenError(
                f"inspect {self.name}: the model has no price for {', '.join(self.unpriced)}; there is no prediction"
            )
        return tuple(step(instruction, self.priced[instruction.address]) for instruction in self.loop.body)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """One simulation per stagger, with all the blocks that an SM holds."""
        return self.simulate(self.occupied.blocks)

    def simulate(self, blocks: int) -> tuple[Run, ...]:
        """Simulate an SM with so many blocks; a single block has nothing to be staggered against."""
        staggers = STAGGERS if blocks > 1 else STAGGERS[:1]
        bound = self.ports.bound
        return tuple(
            simulate(self.steps, blocks, self.compiled.num_warps, self.model, stagger=share * bound)
            for share in staggers
        )

    def waves(self, grid_blocks: int) -> float:
        """Return the share of the steady rate that a launch reaches, whose last wave of blocks may be short.

        All blocks are taken to run equally long, and the blocks of the last wave to spread over the SMs.
        """
        wave = self.occupied.blocks * self.profile.limits.sms
        full, rest = divmod(grid_blocks, wave)
        if not rest:
            return 1.0
        steady = mean(run.cycles for run in self.runs)
        last = mean(run.cycles for run in self.simulate(-(-rest // self.profile.limits.sms)))
        return grid_blocks / wave * steady / (full * steady + last)

    def tflops(self, cycles: float, clock_mhz: int) -> float:
        """Convert cycles per iteration to TFLOP/s of the whole card."""
        return self.occupied.blocks * self.flop / cycles * self.profile.limits.sms * clock_mhz * 1e6 / 1e12

    def rates(self, clock_mhz: int) -> tuple[float, ...]:
        """Predict the loop's TFLOP/s with one block on every SM, with two, and so on up to what an SM holds."""
        return tuple(
            self.tflops(mean(run.cycles for run in self.simulate(blocks)), clock_mhz) * blocks / self.occupied.blocks
            for blocks in range(1, self.occupied.blocks + 1)
        )

    def predict(self, clock_mhz: int | None = None, grid_blocks: int | None = None) -> Prediction:
        """Predict the loop's TFLOP/s. Without a clock the profile's reference clock is taken, else its boost clock.

        With `grid_blocks` the launch's last, short wave of blocks counts too; without, the grid has no end.

        Raises LayoutgenError when the loop has an opcode without a price.
        """
        clock = self.profile.clock(clock_mhz)
        useful = self.flop / self.compiled.num_warps
        share = 1.0 if grid_blocks is None else self.waves(grid_blocks)
        fastest = useful / (self.model.cycles["tensor"] * self.hmma) * self.model.sub_cores
        return Prediction(
            clock,
            tuple(share * self.tflops(run.cycles, clock) for run in self.runs),
            self.tflops(self.ports.bound, clock),
            fastest * self.profile.limits.sms * clock * 1e6 / 1e12,
        )

    @cached_property
    def spent(self) -> tuple[tuple[float, ...], ...]:
        """Cycles per instruction and reason (`simulate.REASONS`), averaged over the staggers."""
        runs = self.runs
        return tuple(
            tuple(mean(run.spent[number][reason] for run in runs) for reason in range(len(REASONS)))
            for number in range(len(self.loop.body))
        )

    def as_dict(self, clock_mhz: int | None = None) -> dict[str, Any]:
        """Return what a program could want as plain data."""
        result: dict[str, Any] = {
            "kernel": self.name,
            "function": self.compiled.kernel,
            "others": list(self.others),
            "arch": self.compiled.arch,
            "triton": self.compiled.triton,
            "profile": self.profile.name,
            "request": self.request.as_dict(),
            "registers": self.compiled.registers,
            "spill_bytes": self.compiled.spill_stores + self.compiled.spill_loads,
            "shared_bytes": self.compiled.shared_bytes,
            "blocks_per_sm": self.occupied.blocks,
            "warps_per_sub_core": self.occupied.warps_per_sub_core,
            "limiters": list(self.occupied.limiters),
            "loop": {
                "start": self.loop.start,
                "end": self.loop.end,
                "instructions": len(self.loop.body),
                "hmma": self.hmma,
                "opcodes": dict(self.loop.opcodes),
                "pipes": dict(self.pipes),
                "forward_branches": [branch.address for branch in self.loop.forward_branches],
                "wavefronts": float(sum(self.wavefronts.values())),
                "instructions_per_hmma": self.instructions_per_hmma,
                "load_bytes_per_hmma": self.load_bytes_per_hmma,
                "flop_per_block": self.flop,
            },
            "ports": {
                port: {"per_warp": self.ports.per_warp[port], "busy": busy} for port, busy in self.ports.busy.items()
            },
            "bound": {"cycles": self.ports.bound, "port": self.ports.limiter},
            "unpriced": list(self.unpriced),
            "prediction": None,
        }
        if not self.unpriced:
            found = self.predict(clock_mhz)
            result["prediction"] = {
                "kind": "model, not a measurement",
                "clock_mhz": found.clock_mhz,
                "tflops": found.mean,
                "low": found.low,
                "high": found.high,
                "bound_tflops": found.bound_tflops,
                "ceiling_tflops": found.ceiling_tflops,
                "cycles": mean(run.cycles for run in self.runs),
            }
        return result


def price_loop(loop: Loop, model: Model, wavefronts: Mapping[int, float]) -> tuple[dict[int, Price], tuple[str, ...]]:
    """Return address -> price of the loop's instructions, and the opcodes that have none."""
    priced = {}
    unpriced = set()
    for instruction in loop.body:
        one = price(instruction, model, wavefronts.get(instruction.address))
        if one is None:
            unpriced.add(instruction.name if instruction.opcode in PIPE_OF else instruction.opcode)
        else:
            priced[instruction.address] = one
    return priced, tuple(sorted(unpriced))


def instruction_dicts(found: Inspection) -> list[dict[str, Any]]:
    """Return the instructions of the main loop as plain data."""
    spent = None if found.unpriced else found.spent
    result = []
    for number, instruction in enumerate(found.loop.body):
        priced = found.priced.get(instruction.address)
        result.append(
            {
                "address": instruction.address,
                "text": instruction.text,
                "control": str(instruction.control),
                "source": found.where(instruction.source),
                "port": None if priced is None else priced.port,
                "cycles": None if priced is None else priced.cycles,
                "wavefronts": found.wavefronts.get(instruction.address),
                "spent": None if spent is None else dict(zip(REASONS, spent[number], strict=True)),
            }
        )
    return result


def profile_of(arch: str) -> str:
    """Return the name of the profile that is for an architecture and has a model.

    >>> profile_of("sm_70")
    'volta'
    """
    found = [name for name in profile_names() if load_profile(name).arch == arch]
    if not found:
        known = sorted({load_profile(name).arch for name in profile_names() if load_profile(name).unit})
        raise LayoutgenError(f"inspect: no profile is for {arch}; there are some for {', '.join(known)}")
    return found[0]


def inspect(file: KernelFile, compiled: Compiled, profile: str | None = None) -> Inspection:
    """Read the machine code of a compiled kernel file and price its main loop.

    Raises LayoutgenError when the code has no loop, no profile fits, or not one block fits on the profile's SM.
    """
    name = profile or profile_of(compiled.arch)
    card, model = load_profile(name), load_model(name)
    if card.arch != compiled.arch:
        raise LayoutgenError(
            f"inspect {file.path.stem}: compiled for {compiled.arch}, but profile {name} is for {card.arch}; "
            f"compile for {card.arch}"
        )
    program = decode(compiled.kernel, compiled.arch, compiled.sass, compiled.cubin)
    loop = program.main_loop
    if not loop.count("HMMA"):
        raise LayoutgenError(f"inspect {file.path.stem}: the main loop has no HMMA; nothing is known of such kernels")
    found = wavefronts_of(loop, count_tiles(file, compiled))
    wavefronts = {address: float(count) for address, count in found.items()}
    priced, unpriced = price_loop(loop, model, wavefronts)
    occupied = occupancy(
        compiled.registers,
        compiled.shared_bytes,
        compiled.num_warps,
        card.limits,
        register_unit=model.register_unit,
        sub_cores=model.sub_cores,
    )
    return Inspection(
        file.path.stem,
        compiled,
        file.request,
        card,
        model,
        program,
        loop,
        wavefronts,
        priced,
        unpriced,
        occupied,
    )
