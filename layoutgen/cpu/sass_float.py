"""Floating-point machine code of sm_70 and sm_75: fp32, the special-function unit, packed fp16, comparisons.

Operations round once, to nearest even; subnormals are kept unless .FTZ says otherwise; a NaN result is the GPU's one
NaN. The special-function unit flushes subnormals; its values are those of `approximations`, a model (see there).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import approximations
from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.rounding import canonical, flush, fma32, fma64_to
from layoutgen.cpu.sass_code import IMMEDIATE, Instruction, Operand
from layoutgen.cpu.sass_integer import COMBINE, COMPARE
from layoutgen.cpu.sass_operands import Operands, Reader

Array = NDArray[Any]

SIGNS16 = np.uint32(0x80008000)


def _saturate(value: Array) -> Array:
    result: Array = np.where(value > 0, np.minimum(value, value.dtype.type(1)), value.dtype.type(0))  # NaN becomes +0
    return result


def _finish(value: Array, ftz: bool, sat: bool) -> Array:
    if ftz:
        value = flush(value)
    if sat:
        value = _saturate(value)
    return canonical(value).view(np.uint32)


def _options(instruction: Instruction, *allowed: str) -> set[str]:
    if any(m not in allowed for m in instruction.modifiers):
        raise instruction.refuse()
    return set(instruction.modifiers)


_ARITHMETIC: dict[str, tuple[int, Callable[..., Array]]] = {
    "FADD": (2, lambda a, b: a + b),
    "FMUL": (2, lambda a, b: a * b),
    "FFMA": (3, fma32),
}


def decode_arithmetic(instruction: Instruction, operands: Operands) -> Step:
    """FADD, FMUL, FFMA, with .FTZ and .SAT."""
    options = _options(instruction, "FTZ", "SAT")
    count, function = _ARITHMETIC[instruction.opcode]
    if len(instruction.operands) != count + 1:
        raise instruction.refuse()
    ftz, sat = "FTZ" in options, "SAT" in options
    reads = [_input(o, instruction, operands, ftz) for o in instruction.operands[1:]]
    put = operands.write(instruction.operands[0], instruction)
    return lambda machine: put(machine, _finish(function(*(read(machine) for read in reads)), ftz, sat))


def _input(operand: Operand, instruction: Instruction, operands: Operands, ftz: bool) -> Reader:
    read = operands.float32(operand, instruction)
    return (lambda machine: flush(read(machine))) if ftz else read


def decode_fmnmx(instruction: Instruction, operands: Operands) -> Step:
    """FMNMX[.FTZ] d, a, b, p: the smaller where p holds, else the larger; -0 is below +0, a NaN gives way."""
    ftz = bool(_options(instruction, "FTZ"))
    if len(instruction.operands) != 4:
        raise instruction.refuse()
    a, b = (_input(o, instruction, operands, ftz) for o in instruction.operands[1:3])
    smaller = operands.predicate(instruction.operands[3], instruction)
    put = operands.write(instruction.operands[0], instruction)

    def step(machine: Machine) -> None:
        x, y, least = a(machine), b(machine), smaller(machine)
        if least.size == 1:
            result = (np.fmin if least[0] else np.fmax)(x, y)
        else:
            result = np.where(least, np.fmin(x, y), np.fmax(x, y))
        zeros = x == y  # equal and yet different: zeros of both signs
        u, v = x.view(np.uint32), y.view(np.uint32)
        bits = np.where(zeros, np.where(least, u | v, u & v), result.view(np.uint32))
        put(machine, canonical(bits.view(np.float32)).view(np.uint32))

    return step


def decode_fsel(instruction: Instruction, operands: Operands) -> Step:
    """FSEL d, a, b, p: a where p holds, else b."""
    _options(instruction)
    if len(instruction.operands) != 4:
        raise instruction.refuse()
    a, b = (operands.float32(o, instruction) for o in instruction.operands[1:3])
    p, put = (
        operands.predicate(instruction.operands[3], instruction),
        operands.write(instruction.operands[0], instruction),
    )
    return lambda machine: put(machine, np.where(p(machine), a(machine).view(np.uint32), b(machine).view(np.uint32)))


FLOAT_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    **COMPARE,
    "NE": lambda a, b: (a < b) | (a > b),
    "NUM": lambda a, b: (a == a) & (b == b),
    "NAN": lambda a, b: (a != a) | (b != b),
    "LTU": lambda a, b: ~(a >= b),
    "EQU": lambda a, b: ~((a < b) | (a > b)),
    "LEU": lambda a, b: ~(a > b),
    "GTU": lambda a, b: ~(a <= b),
    "NEU": lambda a, b: a != b,
    "GEU": lambda a, b: ~(a < b),
}


def _comparison(instruction: Instruction) -> tuple[str, str, set[str]]:
    """(comparison, how it joins the third predicate, other modifiers)."""
    names = [m for m in instruction.modifiers if m in FLOAT_COMPARE]
    joins = [m for m in instruction.modifiers if m in COMBINE]
    rest = {m for m in instruction.modifiers if m not in FLOAT_COMPARE and m not in COMBINE}
    if len(names) != 1 or len(joins) != 1 or len(instruction.operands) != 5:
        raise instruction.refuse()
    return names[0], joins[0], rest


def decode_fsetp(instruction: Instruction, operands: Operands) -> Step:
    """FSETP: p = (a cmp b) op r, q = !(a cmp b) op r."""
    name, join, rest = _comparison(instruction)
    if rest - {"FTZ"}:
        raise instruction.refuse()
    p, q, a_operand, b_operand, r = instruction.operands
    a, b = (_input(o, instruction, operands, bool(rest)) for o in (a_operand, b_operand))
    third = operands.predicate(r, instruction)
    put, put_other = operands.write_predicate(p, instruction), operands.write_predicate(q, instruction)
    decide, merge = FLOAT_COMPARE[name], COMBINE[join]

    def step(machine: Machine) -> None:
        result, c = decide(a(machine), b(machine)), third(machine)
        put(machine, merge(result, c))
        put_other(machine, merge(~result, c))

    return step


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "EX2": approximations.exp2,
    "LG2": approximations.log2,
    "RCP": approximations.reciprocal,
    "RSQ": approximations.reciprocal_square_root,
    "SQRT": approximations.square_root,
    "SIN": lambda x: approximations.sine(x.astype(np.float64) * (2 * np.pi)),
    "COS": lambda x: approximations.cosine(x.astype(np.float64) * (2 * np.pi)),
    "TANH": approximations.tangent_hyperbolic,
}


def decode_mufu(instruction: Instruction, operands: Operands) -> Step:
    """MUFU: the special-function unit; SIN and COS take turns, not radians."""
    if len(instruction.modifiers) != 1 or instruction.modifiers[0] not in _FUNCTIONS or len(instruction.operands) != 2:
        raise instruction.refuse()
    function = _FUNCTIONS[instruction.modifiers[0]]
    read = operands.float32(instruction.operands[1], instruction)
    put = operands.write(instruction.operands[0], instruction)
    return lambda machine: put(machine, _finish(function(flush(read(machine))), True, False))


# Packed fp16 ----------------------------------------------------------------------------------------------


def _halves(operand: Operand, instruction: Instruction, operands: Operands) -> Callable[[Machine], tuple[Array, Array]]:
    """The low and the high fp16 operand; .H0_H0 and .H1_H1 take one half for both."""
    if operand.inverted or operand.modifiers not in ((), ("H0_H0",), ("H1_H1",)):
        raise instruction.refuse("fp16 operand with a modifier")
    plain = Operand(
        operand.kind, operand.value, operand.negated, operand.absolute, base=operand.base, bank=operand.bank
    )
    word = operands.signed_bits(plain, instruction, SIGNS16)
    half = operand.modifiers[0] if operand.modifiers and operand.kind != IMMEDIATE else ""

    def read(machine: Machine) -> tuple[Array, Array]:
        bits = word(machine)
        low = high = None
        if half != "H1_H1":
            low = bits.astype(np.uint16).view(np.float16)
        if half != "H0_H0":
            high = (bits >> np.uint32(16)).astype(np.uint16).view(np.float16)
        first = low if low is not None else high
        second = high if high is not None else low
        assert first is not None
        assert second is not None
        return first, second

    return read


def _fma16(a: Array, b: Array, c: Array) -> Array:
    return fma64_to(a, b, c, np.float16)


_PACKED: dict[str, tuple[int, Callable[..., Array]]] = {
    "HADD2": (2, lambda a, b: a + b),
    "HMUL2": (2, lambda a, b: a * b),
    "HFMA2": (3, _fma16),
}


def decode_packed(instruction: Instruction, operands: Operands) -> Step:
    """HADD2, HMUL2, HFMA2, with .SAT; HADD2.F32 gives the sum of the low operands as fp32."""
    count, function = _PACKED[instruction.opcode]
    options = _options(instruction, "SAT", *(("F32",) if instruction.opcode == "HADD2" else ()))
    if len(instruction.operands) != count + 1:
        raise instruction.refuse()
    reads = [_halves(o, instruction, operands) for o in instruction.operands[1:]]
    put = operands.write(instruction.operands[0], instruction)
    sat = "SAT" in options

    if "F32" in options:
        if sat:
            raise instruction.refuse()

        def wide(machine: Machine) -> None:
            a, b = (read(machine)[0].astype(np.float32) for read in reads)
            put(machine, canonical(a + b).view(np.uint32))

        return wide

    def one(values: tuple[Array, ...]) -> Array:
        result = function(*values)
        return canonical(_saturate(result) if sat else result).view(np.uint16)

    def step(machine: Machine) -> None:
        low, high = zip(*(read(machine) for read in reads), strict=True)
        put(machine, one(low) | (one(high).astype(np.uint32) << np.uint32(16)))

    return step


def decode_hsetp2(instruction: Instruction, operands: Operands) -> Step:
    """HSETP2: p = (low a cmp low b) op r, q = (high a cmp high b) op r."""
    name, join, rest = _comparison(instruction)
    if rest:
        raise instruction.refuse()
    p, q, a_operand, b_operand, r = instruction.operands
    a, b = (_halves(o, instruction, operands) for o in (a_operand, b_operand))
    third = operands.predicate(r, instruction)
    puts = operands.write_predicate(p, instruction), operands.write_predicate(q, instruction)
    decide, merge = FLOAT_COMPARE[name], COMBINE[join]

    def step(machine: Machine) -> None:
        c = third(machine)
        for put, x, y in zip(puts, a(machine), b(machine), strict=True):
            put(machine, merge(decide(x, y), c))

    return step
