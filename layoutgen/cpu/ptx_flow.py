"""Which registers an instruction reads and writes, and which of a program's undefined ones nobody can notice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from layoutgen.cpu.ptx_program import Address, Immediate, Instruction, Operand, Pair, Program, Register, Vector

_NO_DESTINATION = ("st", "bra", "ret", "exit", "bar", "barrier", "membar", "fence", "trap")


def reads(instruction: Instruction) -> tuple[Register, ...]:
    """The registers that the instruction reads, its guard and addresses included."""
    skipped = 0 if instruction.op[0] in _NO_DESTINATION else 1
    found = list(_registers(instruction.operands[skipped:]))
    if instruction.guard is not None:
        found.append(instruction.guard)
    return tuple(found)


def writes(instruction: Instruction) -> tuple[Register, ...]:
    """The registers that the instruction writes."""
    return () if instruction.op[0] in _NO_DESTINATION else tuple(_registers(instruction.operands[:1]))


def _registers(operands: Iterable[Operand | None]) -> Iterable[Register]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand
        elif isinstance(operand, Vector):
            yield from _registers(operand.items)
        elif isinstance(operand, Address):
            yield from _registers([operand.base])
        elif isinstance(operand, Pair):
            yield from _registers([operand.first, operand.second])


def unread_undefined(program: Program) -> dict[int, frozenset[str]]:
    """Instruction number -> registers it reads whose undefined bits go nowhere, so that no result depends on them.

    LLVM packs a vector of which one half is undefined as `mov.b32 %r1, {%h1, %h2}` with an %h2 that no instruction
    of the program writes. Its bytes go nowhere exactly when that mov, unguarded, alone writes %r1, and every reader of
    %r1 is a `prmt.b32` with an immediate selector that takes none of those bytes (of a byte's sign, it takes the byte).

    >>> from layoutgen.cpu.ptx_parser import parse_ptx
    >>> text = '''
    ... .version 8.8
    ... .target sm_70
    ... .visible .entry example() .reqntid 32 {
    ... .reg .b16 %h<3>; .reg .b32 %r<3>;
    ... mov.b16 %h1, 1;
    ... mov.b32 %r1, {%h1, %h2};
    ... prmt.b32 %r2, %r1, 0, 0x7710U;
    ... ret; }'''
    >>> unread_undefined(parse_ptx(text))
    {1: frozenset({'%h2'})}
    >>> unread_undefined(parse_ptx(text.replace("7710", "7720")))
    {}
    """
    writers: dict[str, int] = defaultdict(int)
    readers: dict[str, list[Instruction]] = defaultdict(list)
    for instruction in program.instructions:
        for register in writes(instruction):
            writers[register.name] += 1
        for name in {register.name for register in reads(instruction)}:
            readers[name].append(instruction)
    found = {}
    for number, instruction in enumerate(program.instructions):
        if instruction.op != ("mov", "b32") or instruction.guard is not None or len(instruction.operands) != 2:
            continue
        target, source = instruction.operands
        if not isinstance(target, Register) or not isinstance(source, Vector):
            continue
        width = 4 // len(source.items)
        pieces = [item.name if isinstance(item, Register) else "" for item in source.items]
        undefined = {place for place, name in enumerate(pieces) if name and not writers[name]}
        hidden = frozenset(width * place + byte for place in undefined for byte in range(width))
        if (
            hidden
            and writers[target.name] == 1
            and not any(_takes(r, target.name, hidden) for r in readers[target.name])
        ):
            found[number] = frozenset(pieces[place] for place in undefined)
    return found


def _takes(reader: Instruction, name: str, hidden: frozenset[int]) -> bool:
    """Whether the instruction may take one of the `hidden` bytes of a register that it reads."""
    if reader.op != ("prmt", "b32") or len(reader.operands) != 4:
        return True
    selector = reader.operands[3]
    if not isinstance(selector, Immediate):
        return True
    for nibble in (selector.value >> 4 * byte & 15 for byte in range(4)):
        operand, byte = divmod(nibble & 7, 4)  # bit 3 asks for the byte's sign: that is of the same byte
        if byte in hidden and reader.operands[1 + operand] == Register(name):
            return True
    return False
