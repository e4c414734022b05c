"""A decoded kernel: instructions with their control codes and source lines, and its loops.

Decoding says what is there; what it costs is said in `ports`, what it does would be said by an executor.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from layoutgen.errors import LayoutgenError
from layoutgen.sass.control import Control, split
from layoutgen.sass.lines import SourceLine, line_table
from layoutgen.sass.operand import PT, Immediate, Operand, Predicate, parse_operand

INSTRUCTION_BYTES = 16
_SEPARATOR = re.compile(r",(?![^{]*\})|(?<=\w)\s+(?=0x)")
_LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(?:@(!?)(U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*?)\s*;", re.MULTILINE)


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    `opcode` is the name without modifiers, `modifiers` what follows the dots; `guard` is the predicate it is executed
    under, or None; `encoding` are its 128 bits, `control` what they tell the scheduler; `source` the line it was made
    from.
    """

    address: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Predicate | None
    control: Control
    encoding: int
    text: str
    source: SourceLine | None = None

    @property
    def name(self) -> str:
        """The opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def target(self) -> int | None:
        """The address that a branch leads to; None for anything else, calls included."""
        if self.opcode not in ("BRA", "JMP") or not self.operands:
            return None
        last = self.operands[-1]
        return int(last.value) if isinstance(last, Immediate) else None

    @property
    def always(self) -> bool:
        """Whether nothing can keep the instruction from being executed."""
        return self.guard is None or (self.guard.index == PT and not self.guard.negated)

    @property
    def never(self) -> bool:
        """Whether the guard is !PT: an instruction that only takes its turn."""
        return self.guard is not None and self.guard.index == PT and self.guard.negated

    def __str__(self) -> str:
        return f"{self.address:06x}  {self.control}  {self.text}"


@dataclass(frozen=True)
class Loop:
    """The instructions between a backward branch and its target, both included."""

    body: tuple[Instruction, ...]

    @property
    def start(self) -> int:
        return self.body[0].address

    @property
    def end(self) -> int:
        return self.body[-1].address

    def count(self, opcode: str) -> int:
        """How many instructions of the body have this opcode, whatever their modifiers."""
        return self.opcodes[opcode]

    @cached_property
    def opcodes(self) -> Counter[str]:
        return Counter(instruction.opcode for instruction in self.body)

    @property
    def forward_branches(self) -> tuple[Instruction, ...]:
        """Branches of the body that skip a part of it, or leave it."""
        return tuple(i for i in self.body[:-1] if i.target is not None and i.target > i.address)


@dataclass(frozen=True)
class Program:
    """A kernel's machine code, decoded."""

    kernel: str
    arch: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops, by address; a loop may lie within another. A branch to itself (padding) is none."""
        found = []
        for number, instruction in enumerate(self.instructions):
            target = instruction.target
            if target is not None and target < instruction.address:
                found.append(Loop(self.instructions[target // INSTRUCTION_BYTES : number + 1]))
        return tuple(sorted(found, key=lambda loop: loop.start))

    @property
    def main_loop(self) -> Loop:
        """The innermost loop with the most HMMA; without any HMMA the longest innermost one.

        Of several with as many HMMA it is the shortest: the others do the same work with masks on top.

        Raises LayoutgenError when the code has no loop.
        """
        inner = [
            loop
            for loop in self.loops
            if not any(
                loop is not other and loop.start <= other.start and other.end <= loop.end for other in self.loops
            )
        ]
        if not inner:
            raise LayoutgenError(f"sass {self.kernel}: has no loop; name a kernel that repeats its work")

        def rank(loop: Loop) -> tuple[int, int, int]:
            hmma, length = loop.count("HMMA"), len(loop.body)
            return hmma, -length if hmma else length, -loop.start

        return max(inner, key=rank)

    def at(self, address: int) -> Instruction:
        """Return the instruction at an address."""
        number, rest = divmod(address, INSTRUCTION_BYTES)
        if rest or not 0 <= number < len(self.instructions):
            raise LayoutgenError(f"sass {self.kernel}: no instruction at {address:#x}")
        return self.instructions[number]


def decode(kernel: str, arch: str, sass: str, cubin: bytes) -> Program:
    """Decode a kernel from its disassembly (`toolchain.binaries.disassemble`) and the cubin that it was made from.

    The cubin gives the encodings, and the lines. Raises LayoutgenError when the two do not belong together.
    """
    from layoutgen.toolchain.elf import sections

    found = sections(cubin)
    code = found.get(f".text.{kernel}")
    if code is None:
        raise LayoutgenError(f"cubin: holds no code for {kernel}")
    lines = line_table(found[".debug_line"]) if ".debug_line" in found else {}
    instructions = []
    source: SourceLine | None = None
    for number, match in enumerate(_LINE.finditer(sass)):
        address = int(match[1], 16)
        if address != number * INSTRUCTION_BYTES or address + INSTRUCTION_BYTES > len(code):
            raise LayoutgenError(
                f"sass {kernel}: instruction {number} is printed at {address:#x}; text and code differ"
            )
        source = lines.get(address, source)
        encoding = int.from_bytes(code[address : address + INSTRUCTION_BYTES], "little")
        opcode, *modifiers = match[4].split(".")
        instructions.append(
            Instruction(
                address,
                opcode,
                tuple(modifiers),
                parse_operands(match[5]),
                _guard(match[2], match[3]),
                split(encoding)[1],
                encoding,
                " ".join(match[0].split("*/", 1)[1].rstrip(" ;").split()),
                source,
            )
        )
    if len(instructions) * INSTRUCTION_BYTES != len(code):
        raise LayoutgenError(
            f"sass {kernel}: {len(instructions)} instructions were read of {len(code) // INSTRUCTION_BYTES}"
        )
    return Program(kernel, arch, tuple(instructions))


def parse_operands(text: str) -> tuple[Operand, ...]:
    """Read the operands of an instruction.

    >>> parse_operands("R2, [R4+0x10]")[1].offset, parse_operands("")
    (16, ())

    RET has two that only a space parts.
    """
    return tuple(parse_operand(part.strip()) for part in _SEPARATOR.split(text) if part.strip())


def _guard(negated: str, name: str | None) -> Predicate | None:
    if name is None:
        return None
    found = parse_operand(negated + name)
    if not isinstance(found, Predicate):
        raise LayoutgenError(f"sass: guard {negated}{name} is no predicate")
    return found
