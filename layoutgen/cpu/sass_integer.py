"""Integer arithmetic and comparison of sm_70 and sm_75 machine code, those of the uniform datapath included.

No vendor documents these; what is said here was read off what ptxas makes of PTX whose meaning is documented, and is
held to the PTX executor and to NumPy by differential fuzzing at all optimisation levels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.sass_code import IMMEDIATE, PREDICATE, UNIFORM_PREDICATE, Instruction, Operand
from layoutgen.cpu.sass_operands import ZERO, Operands, Reader, is_zero

Array = NDArray[Any]

_U32 = np.uint64(32)


def predicates_around(instruction: Instruction) -> tuple[list[Operand], list[Operand], list[Operand]]:
    """(predicates written, sources, predicates read) of `D [, P...], sources..., [P...]`, D left out."""
    rest = list(instruction.operands[1:])
    written: list[Operand] = []
    read: list[Operand] = []
    while rest and rest[0].kind in (PREDICATE, UNIFORM_PREDICATE):
        written.append(rest.pop(0))
    while rest and rest[-1].kind in (PREDICATE, UNIFORM_PREDICATE):
        read.insert(0, rest.pop())
    return written, rest, read


def decode_iadd3(instruction: Instruction, operands: Operands) -> Step:
    """IADD3[.X]: the sum of three; up to two predicates take the carry (whether it is at least 1, at least 2), .X adds
    those it reads. A negated source counts as its complement plus one, so that a difference carries unless it borrows.
    """
    written, sources, read = predicates_around(instruction)
    if len(sources) != 3 or len(written) > 2 or bool(read) != (instruction.modifiers == ("X",)) or len(read) > 2:
        raise instruction.refuse()
    if instruction.modifiers not in ((), ("X",)):
        raise instruction.refuse()
    put = operands.write(instruction.operands[0], instruction)
    if not written and not read:
        plain = [operands.integer(s, instruction) for s in sources if not is_zero(s)]
        return _sum(plain, put)
    if read and any(s.negated for s in sources):
        raise instruction.refuse("a negated source beside a carry")
    wide = [_wide_source(operands, s, instruction) for s in sources]
    carries = [operands.predicate(p, instruction) for p in read]
    outs = [operands.write_predicate(p, instruction) for p in written]

    def step(machine: Machine) -> None:
        total: Array = wide[0](machine) + wide[1](machine) + wide[2](machine)
        for carry in carries:
            total = total + carry(machine)
        over = total >> _U32
        put(machine, total.astype(np.uint32))
        for number, out in enumerate(outs):
            out(machine, over > np.uint64(number))

    return step


def _sum(plain: list[Reader], put: Any) -> Step:
    def step(machine: Machine) -> None:
        total = ZERO
        for number, read in enumerate(plain):
            total = total + read(machine) if number else read(machine)
        put(machine, total)

    return step


def _wide_source(operands: Operands, source: Operand, instruction: Instruction) -> Reader:
    """A source as uint64; a negated one as 2^32 minus its value, which keeps the carry right for zero."""
    if not source.negated:
        read = operands.integer(source, instruction)
        return lambda machine: read(machine).astype(np.uint64)
    raw = operands.raw(source, instruction)
    return lambda machine: np.uint64(1 << 32) - raw(machine).astype(np.uint64)


_IMAD_PLAIN = ("MOV", "SHL", "IADD")


def decode_imad(instruction: Instruction, operands: Operands) -> Step:
    """IMAD: a * b + c. The low word (also as .MOV, .SHL, .IADD, .U32, and .X with a carry), .HI (the high word of the
    64-bit sum with a 64-bit c) or .WIDE (all of it; may set a carry, .X adds one)."""
    modifiers = instruction.modifiers
    written, sources, read = predicates_around(instruction)
    if len(sources) != 3:
        raise instruction.refuse()
    kind = next((m for m in modifiers if m in ("WIDE", "HI")), "")
    rest = [m for m in modifiers if m != kind]
    unsigned, extended = "U32" in rest, "X" in rest
    if any(m not in ("U32", "X", *(() if kind else _IMAD_PLAIN)) for m in rest) or len(read) != int(extended):
        raise instruction.refuse()
    carry = operands.predicate(read[0], instruction) if extended else None
    a_operand, b_operand, c_operand = sources
    if not kind:
        if written:
            raise instruction.refuse()
        return _imad_low(instruction, operands, a_operand, b_operand, c_operand, carry)
    if a_operand.negated or b_operand.negated or len(written) > int(kind == "WIDE") or (kind == "HI" and extended):
        raise instruction.refuse()
    a, b = (operands.integer(o, instruction) for o in (a_operand, b_operand))
    c = operands.wide(c_operand, instruction)
    extend: Any = np.uint64 if unsigned else np.int64

    def product(machine: Machine) -> Array:
        x, y = a(machine), b(machine)
        if not unsigned:
            x, y = x.view(np.int32), y.view(np.int32)
        result: Array = (x.astype(extend) * y.astype(extend)).view(np.uint64)
        return result

    if kind == "HI":
        put = operands.write(instruction.operands[0], instruction)
        return lambda machine: put(machine, ((product(machine) + c(machine)) >> _U32).astype(np.uint32))
    if written and not unsigned:
        raise instruction.refuse("the carry of a signed sum")
    put_wide = operands.write_wide(instruction.operands[0], instruction)
    out = operands.write_predicate(written[0], instruction) if written else None

    def step(machine: Machine) -> None:
        first = product(machine)
        total = first + c(machine)
        over = total < first
        if carry is not None:
            plus = carry(machine)
            total = total + plus
            over = over | (plus & (total == 0))
        put_wide(machine, total)
        if out is not None:
            out(machine, over)

    return step


def _imad_low(
    instruction: Instruction, operands: Operands, a_operand: Operand, b_operand: Operand, c_operand: Operand,
    carry: Reader | None,
) -> Step:  # fmt: skip
    put = operands.write(instruction.operands[0], instruction)
    c = operands.integer(c_operand, instruction)
    if (is_zero(a_operand) or is_zero(b_operand)) and carry is None:  # IMAD.MOV, IMAD.U32
        return lambda machine: put(machine, c(machine))
    a, b = operands.integer(a_operand, instruction), operands.integer(b_operand, instruction)

    def step(machine: Machine) -> None:
        total = a(machine) * b(machine) + c(machine)
        if carry is not None:
            total = total + carry(machine)
        put(machine, total)

    return step


def decode_lea(instruction: Instruction, operands: Operands) -> Step:
    """LEA: (a << s) + b, its carry optional. LEA.HI[.X]: ({c, a} << s >> 32) + b [+ carry]; .SX32 takes the sign of a
    for c. `a` may be negated, and `b` where no carry comes or goes."""
    modifiers = instruction.modifiers
    written, sources, read = predicates_around(instruction)
    high, signed, extended = ("HI" in modifiers), ("SX32" in modifiers), ("X" in modifiers)
    count = 4 if high and not signed else 3
    known = modifiers in ((), ("HI",), ("HI", "X"), ("HI", "X", "SX32"), ("HI", "SX32"))
    if not known or len(sources) != count or len(written) > 1 or len(read) != int(extended):
        raise instruction.refuse()
    shift = sources[-1]
    if shift.kind != IMMEDIATE or not 0 <= shift.value < 32:
        raise instruction.refuse("shift by no constant")
    distance = np.uint64(shift.value)
    a_operand, b_operand = sources[0], sources[1]
    if (b_operand.negated and (written or extended)) or (a_operand.negated and (high or written)):
        raise instruction.refuse("negated source")
    a, b = operands.integer(a_operand, instruction), operands.integer(b_operand, instruction)
    c = operands.integer(sources[2], instruction) if count == 4 else None
    carry = operands.predicate(read[0], instruction) if extended else None
    put = operands.write(instruction.operands[0], instruction)
    out = operands.write_predicate(written[0], instruction) if written else None

    def step(machine: Machine) -> None:
        low = a(machine)
        if not high:
            shifted = (low << np.uint32(distance)).astype(np.uint64)
        else:
            if c is not None:
                whole = (c(machine).astype(np.uint64) << _U32) | low
            else:
                whole = low.view(np.int32).astype(np.int64).view(np.uint64)
            shifted = (whole << distance) >> _U32
        total = shifted + b(machine)
        if carry is not None:
            total = total + carry(machine)
        put(machine, total.astype(np.uint32))
        if out is not None:
            out(machine, total >= np.uint64(1 << 32))

    return step


COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "LT": lambda a, b: a < b,
    "EQ": lambda a, b: a == b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "NE": lambda a, b: a != b,
    "GE": lambda a, b: a >= b,
}
COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "AND": lambda p, q: p & q,
    "OR": lambda p, q: p | q,
    "XOR": lambda p, q: p ^ q,
}


def decode_isetp(instruction: Instruction, operands: Operands) -> Step:
    """ISETP: p = (a cmp b) op r, q = !(a cmp b) op r. With .EX the words are the high ones of a pair, and a last
    predicate says how the low ones compare."""
    compare, *modifiers = instruction.modifiers
    unsigned, extended = "U32" in modifiers, "EX" in modifiers
    combine = [m for m in modifiers if m in COMBINE]
    known = all(m in ("U32", "EX", *COMBINE) for m in modifiers) and compare in COMPARE and len(combine) == 1
    if not known or len(instruction.operands) != 5 + extended:
        raise instruction.refuse()
    p, q, a_operand, b_operand, r, *low_operand = instruction.operands
    a, b = operands.integer(a_operand, instruction), operands.integer(b_operand, instruction)
    third = operands.predicate(r, instruction)
    low = operands.predicate(low_operand[0], instruction) if extended else None
    put, put_other = operands.write_predicate(p, instruction), operands.write_predicate(q, instruction)
    merge, decide = COMBINE[combine[0]], COMPARE[compare]
    strict = {"LE": COMPARE["LT"], "GE": COMPARE["GT"]}.get(compare, decide)

    def step(machine: Machine) -> None:
        x, y = a(machine), b(machine)
        if not unsigned:
            x, y = x.view(np.int32), y.view(np.int32)
        if low is None:
            result = decide(x, y)
        elif compare == "NE":
            result = (x != y) | low(machine)
        elif compare == "EQ":
            result = (x == y) & low(machine)
        else:
            result = strict(x, y) | ((x == y) & low(machine))
        c = third(machine)
        put(machine, merge(result, c))
        put_other(machine, merge(~result, c))

    return step


def decode_imnmx(instruction: Instruction, operands: Operands) -> Step:
    """IMNMX[.U32] d, a, b, p: the smaller where p holds, else the larger."""
    if instruction.modifiers not in ((), ("U32",)) or len(instruction.operands) != 4:
        raise instruction.refuse()
    kind: Any = np.uint32 if instruction.modifiers else np.int32
    a, b = (operands.integer(o, instruction) for o in instruction.operands[1:3])
    smaller, put = (
        operands.predicate(instruction.operands[3], instruction),
        operands.write(instruction.operands[0], instruction),
    )

    def step(machine: Machine) -> None:
        x, y = a(machine).view(kind), b(machine).view(kind)
        put(machine, np.where(smaller(machine), np.minimum(x, y), np.maximum(x, y)).view(np.uint32))

    return step
