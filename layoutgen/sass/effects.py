"""Which registers and predicates an instruction reads and writes: what a scoreboard check needs to know.

Widths follow from the opcode and its modifiers. An opcode that is not known here raises, so that nothing is passed
over in silence.
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutgen.errors import LayoutgenError
from layoutgen.sass.operand import PT, RZ, URZ, Address, Constant, Name, Operand, Predicate, Register
from layoutgen.sass.pricing import width_words
from layoutgen.sass.program import Instruction

Resource = tuple[str, int]
"""("R", 4), ("P", 0), ("UR", 3), ("UP", 1): a register or predicate, of a thread or uniform."""

_NO_RESULT = ("STG", "STS", "STL", "BRA", "EXIT", "NOP", "YIELD", "WARPSYNC", "BAR", "BSSY", "BSYNC", "BREAK", "BMOV",
              "CALL", "RET")  # fmt: skip
_TWO_PREDICATES = ("ISETP", "FSETP", "HSETP2", "PLOP3", "UISETP", "UPLOP3")
_WITH_RESULT = {
    "LDG", "LDS", "LDL", "LDC", "ULDC", "S2R", "S2UR", "CS2R", "R2UR", "MOV", "UMOV", "IADD3", "UIADD3", "IMAD",
    "UIMAD", "LEA", "ULEA", "SHF", "USHF", "LOP3", "ULOP3", "SEL", "USEL", "PRMT", "UPRMT", "SGXT", "USGXT",
    "P2R", "R2P", "VOTE", "POPC", "FLO", "BREV", "IABS", "IMNMX", "FADD", "FMUL", "FFMA", "FMNMX", "FSEL",
    "MUFU", "HADD2", "HMUL2", "HFMA2", "HMMA", "F2F", "F2I", "I2F", "FRND", "SHFL", "UPOPC", "UFLO", "UBREV",
}  # fmt: skip


@dataclass(frozen=True)
class Effects:
    """What an instruction reads (its guard apart) and writes."""

    reads: frozenset[Resource]
    writes: frozenset[Resource]
    guard: frozenset[Resource]


def effects(instruction: Instruction) -> Effects:
    """Return the effects of an instruction. Raises LayoutgenError for an opcode that is not known here."""
    opcode = instruction.opcode
    operands = list(instruction.operands)
    guard = frozenset(_resources(instruction.guard, 1)) if instruction.guard is not None else frozenset()
    if instruction.never:
        return Effects(frozenset(), frozenset(), frozenset())
    if opcode in _TWO_PREDICATES:
        results = 2
    elif opcode in _NO_RESULT:
        results = 0
    elif opcode in _WITH_RESULT:
        results = 1
        if opcode == "SHFL" or (opcode in ("LOP3", "ULOP3") and isinstance(operands[0], Predicate)):
            results = 2
        while results < len(operands) and isinstance(operands[results], Predicate) and _carries(opcode):
            results += 1
    else:
        raise LayoutgenError(f"effects: `{instruction.text}`: nothing is known of {opcode}")
    writes: set[Resource] = set()
    reads: set[Resource] = set()
    if opcode == "R2P":
        writes.update(("P", number) for number in range(PT))
    if opcode == "P2R":
        reads.update(("P", number) for number in range(PT))
    for operand in operands[:results]:
        writes.update(_resources(operand, _result_words(instruction)))
    for number, operand in enumerate(operands[results:]):
        reads.update(_resources(operand, _source_words(instruction, number, operand)))
    return Effects(frozenset(reads), frozenset(writes), guard)


def _carries(opcode: str) -> bool:
    return opcode in ("IADD3", "UIADD3", "IMAD", "UIMAD", "LEA", "ULEA", "VOTE")


def _result_words(instruction: Instruction) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("LDG", "LDS", "LDL", "LDC", "ULDC"):
        return width_words(instruction)
    if opcode == "HMMA" or (opcode == "CS2R" and "32" not in modifiers) or "WIDE" in modifiers:
        return 2
    return 1


def _source_words(instruction: Instruction, number: int, operand: Operand) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if isinstance(operand, Address):
        return 2 if opcode in ("LDG", "STG") and "U32" not in operand.modifiers else 1
    if opcode in ("STG", "STS", "STL"):
        return width_words(instruction)
    if opcode == "HMMA" or opcode == "RET":
        return 2
    if opcode in ("IMAD", "UIMAD") and number == 2 and ("WIDE" in modifiers or "HI" in modifiers):
        return 2
    return 1


def _resources(operand: Operand, words: int) -> list[Resource]:
    match operand:
        case Register():
            limit, kind = (URZ, "UR") if operand.uniform else (RZ, "R")
            return [] if operand.index == limit else [(kind, operand.index + n) for n in range(words)]
        case Predicate():
            return [] if operand.index == PT else [("UP" if operand.uniform else "P", operand.index)]
        case Address():
            found = [] if operand.base == RZ else [("R", operand.base + n) for n in range(words)]
            uniform = [] if operand.uniform == URZ else [("UR", operand.uniform + n) for n in range(words)]
            return found + uniform
        case Constant():
            return [] if operand.index == RZ else [("R", operand.index)]
        case Name() | _:
            return []
