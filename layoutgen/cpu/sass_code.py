"""Machine code as plain values: what the executor wants to be told, whoever decoded it.

Forms are matched on purpose and completely: `Instruction.form` spells the kinds of the operands, and an instruction
whose form no decoder knows stops the run with its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from layoutgen.cpu.source import Source
from layoutgen.errors import LayoutgenError

INSTRUCTION_BYTES = 16

REGISTER, UNIFORM = "R", "U"
PREDICATE, UNIFORM_PREDICATE = "P", "Q"
IMMEDIATE, CONSTANT, ADDRESS, NAME = "I", "C", "A", "N"
KINDS = (REGISTER, UNIFORM, PREDICATE, UNIFORM_PREDICATE, IMMEDIATE, CONSTANT, ADDRESS, NAME)

RZ, URZ, PT = 255, 63, 7


class UnsupportedCodeError(LayoutgenError):
    """An instruction, or a form of one, that the executor does not know."""

    def __init__(self, text: str, why: str = "") -> None:
        super().__init__(f"sass: {text} is not supported" + (f": {why}" if why else ""))


@dataclass(frozen=True)
class Operand:
    """One operand. `kind` is one of KINDS.

    `value` is the number of a register or predicate, the 32 bits of an immediate, the byte offset of a constant or an
    address; `base` and `uniform` are the registers that an address adds (RZ, URZ: none; `base` also indexes a
    constant), `bank` is a constant's, `name` whatever goes by a name of its own. `negated` is a minus, or the `!` of a
    predicate; `inverted` is `~`.
    """

    kind: str
    value: int = 0
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    modifiers: tuple[str, ...] = ()
    base: int = RZ
    uniform: int = URZ
    bank: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise LayoutgenError(f"sass operand: no kind {self.kind!r}; known are {', '.join(KINDS)}")

    @property
    def plain(self) -> bool:
        """Whether the operand is taken as it is."""
        return not (self.negated or self.absolute or self.inverted or self.modifiers)


@dataclass(frozen=True)
class Instruction:
    """One machine instruction: `opcode` without modifiers, `modifiers` what follows its dots, `text` as printed.

    `guard` is a predicate or None.
    """

    address: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None
    text: str
    source: Source = field(default_factory=lambda: Source("", 0))

    @property
    def form(self) -> str:
        """The kinds of the operands, a letter each.

        >>> Instruction(0, "MOV", (), (Operand("R", 1), Operand("C", 0x28)), None, "MOV R1, c[0x0][0x28]").form
        'RC'
        """
        return "".join(operand.kind for operand in self.operands)

    @property
    def never(self) -> bool:
        """Whether the guard is !PT."""
        return self.guard is not None and self.guard.value == PT and self.guard.negated

    @property
    def always(self) -> bool:
        """Whether nothing keeps the instruction from being executed."""
        return self.guard is None or (self.guard.value == PT and not self.guard.negated)

    def refuse(self, why: str = "") -> UnsupportedCodeError:
        """The error that stops a run at this instruction."""
        return UnsupportedCodeError(f"`{self.text}` at {self.address:#x}", why)


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter: its byte offset in constant bank 0, and its PTX type (its size, and how to fill it)."""

    offset: int
    type: str


@dataclass(frozen=True)
class Code:
    """A kernel's machine code. `banks` holds the constant banks that the cubin itself fills."""

    kernel: str
    arch: str
    instructions: tuple[Instruction, ...]
    parameters: tuple[Parameter, ...]
    banks: Mapping[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, instruction in enumerate(self.instructions):
            if instruction.address != number * INSTRUCTION_BYTES:
                raise LayoutgenError(
                    f"sass {self.kernel}: instruction {number} is said to be at {instruction.address:#x}"
                )
