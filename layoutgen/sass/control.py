"""The control code that the assembler writes beside every instruction from sm_70 on.

An instruction has 128 bits; bits 41 and up of its high half say when the scheduler may go on: a fixed stall, which
of the six scoreboard barriers the instruction sets and which it waits for. Source: facts on sm_70 machine code in
docs/facts.md (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutgen.errors import LayoutgenError

SHIFT = 41
"""First bit of the control code in the high 64 bits of an instruction."""

BARRIERS = 6
NO_BARRIER = 7


@dataclass(frozen=True)
class Control:
    """What the scheduler is told about one instruction.

    `stall` cycles pass before the warp's next instruction; `yields` hints at another warp; `write` and `read` number
    the barriers that fall when the result is written and when the operands have been read (None: no barrier); `wait`
    are the barriers that must have fallen before this instruction issues; `reuse` are the operand slots whose values
    are kept.

    >>> Control.decode(0x7F2)
    Control(stall=2, yields=False, write=None, read=None, wait=(), reuse=())
    """

    stall: int
    yields: bool
    write: int | None
    read: int | None
    wait: tuple[int, ...]
    reuse: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.stall < 16:
            raise LayoutgenError(f"control code: stall {self.stall}; 0 to 15 fit in its four bits")
        barriers = (*self.wait, *(number for number in (self.write, self.read) if number is not None))
        for number in barriers:
            if not 0 <= number < BARRIERS:
                raise LayoutgenError(f"control code: barrier {number}; 0 to {BARRIERS - 1} exist")

    @classmethod
    def decode(cls, bits: int) -> Control:
        """Read the 21 bits of a control code: stall 4, yield 1 (inverted), write 3, read 3, wait 6, reuse 4."""
        write, read = bits >> 5 & 7, bits >> 8 & 7
        if (NO_BARRIER - 1) in (write, read):
            raise LayoutgenError(f"control code {bits:#x}: sets barrier 6; 0 to 5 exist, 7 is none")
        return cls(
            stall=bits & 15,
            yields=not bits >> 4 & 1,
            write=None if write == NO_BARRIER else write,
            read=None if read == NO_BARRIER else read,
            wait=tuple(number for number in range(BARRIERS) if bits >> 11 + number & 1),
            reuse=tuple(slot for slot in range(4) if bits >> 17 + slot & 1),
        )

    def encode(self) -> int:
        """Return the 21 bits; the inverse of `decode`.

        >>> hex(Control.decode(0x7F2).encode())
        '0x7f2'
        """
        write = NO_BARRIER if self.write is None else self.write
        read = NO_BARRIER if self.read is None else self.read
        wait = sum(1 << number for number in self.wait)
        reuse = sum(1 << slot for slot in self.reuse)
        return self.stall | (not self.yields) << 4 | write << 5 | read << 8 | wait << 11 | reuse << 17

    def __str__(self) -> str:
        """The usual short form: waits, read barrier, write barrier, yield, stall.

        >>> print(Control(stall=4, yields=True, write=2, read=None, wait=(0, 3), reuse=()))
        B0--3--:R-:W2:Y:S04
        """
        wait = "".join(str(number) if number in self.wait else "-" for number in range(BARRIERS))
        read = "-" if self.read is None else self.read
        write = "-" if self.write is None else self.write
        return f"B{wait}:R{read}:W{write}:{'Y' if self.yields else '-'}:S{self.stall:02}"


def split(encoding: int) -> tuple[int, Control]:
    """Take an instruction of 128 bits apart into its operation and its control code.

    >>> split(0x000FE40000000F00_00000A0000017A02)[1].stall
    2
    """
    low, high = encoding & (1 << 64) - 1, encoding >> 64
    operation = (high & (1 << SHIFT) - 1) << 64 | low
    return operation, Control.decode(high >> SHIFT & (1 << 21) - 1)
