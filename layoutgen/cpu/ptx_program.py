"""A parsed PTX kernel as values: operands, instructions, the program."""

from __future__ import annotations

from dataclasses import dataclass, field

from layoutgen.cpu.source import Source
from layoutgen.errors import LayoutgenError


class PtxError(LayoutgenError):
    """PTX text that cannot be read; the message carries the line of the text and the statement."""


class UnsupportedInstructionError(LayoutgenError):
    """An instruction form that the executor does not know: `unsupported: <instruction>`."""

    def __init__(self, text: str, why: str = "") -> None:
        super().__init__(f"unsupported: {text}" + (f" ({why})" if why else ""))


@dataclass(frozen=True)
class Register:
    """A virtual register, e.g. `%r12`; `negated` for a predicate written `!%p1`."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Special:
    """A special register that can be read, e.g. `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A literal. Integers are kept as they are; `float_bits` says that `value` is a bit pattern of that
    width."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Vector:
    """A brace list `{a, b, ...}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """A memory operand `[base + offset]`; the base is None for an absolute address. Bytes."""

    base: Register | Symbol | None
    offset: int


@dataclass(frozen=True)
class Symbol:
    """A label, a parameter or a shared variable."""

    name: str


@dataclass(frozen=True)
class Pair:
    """Two destinations `a|b`, as of setp and shfl."""

    first: Register
    second: Register


@dataclass(frozen=True)
class Sink:
    """The bit bucket `_`."""


Operand = Register | Special | Immediate | Vector | Address | Symbol | Pair | Sink


@dataclass(frozen=True)
class Instruction:
    """One instruction. `op` is split at the dots; `source` is the kernel's own file and line."""

    op: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    text: str
    ptx_line: int
    source: Source

    @property
    def name(self) -> str:
        """The opcode with all its modifiers."""
        return ".".join(self.op)


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter: type, and offset in bytes within the parameter space."""

    name: str
    type: str
    offset: int


@dataclass(frozen=True, eq=False)
class Program:
    """A parsed kernel; equal to itself alone.

    `registers` maps a name to its width in bits; `labels` to instruction numbers; `shared` maps shared
    variables to byte offsets, of which `shared_bytes` are allocated statically. `dynamic_shared` says that
    an `.extern .shared` array follows: its size is the launch's to choose. `threads` is `.reqntid` (0 when
    absent).
    """

    name: str
    target: str
    instructions: tuple[Instruction, ...]
    labels: dict[str, int] = field(repr=False)
    registers: dict[str, int] = field(repr=False)
    parameters: tuple[Parameter, ...]
    shared: dict[str, int]
    shared_bytes: int
    dynamic_shared: bool
    threads: int
