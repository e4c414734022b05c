"""PTX floating-point instructions and comparisons (PTX ISA, "Floating Point", "Half Precision",
"Comparison").

fp32 and fp16 operations round once, to nearest even, and keep subnormals unless `.ftz` says otherwise; NaN
results are the GPU's one NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import approximations
from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.ptx_integer import compute
from layoutgen.cpu.ptx_operands import Slots
from layoutgen.cpu.ptx_program import Instruction, Pair, UnsupportedInstructionError
from layoutgen.cpu.ptx_types import BITS, is_float, numpy_type
from layoutgen.cpu.rounding import canonical, flush, fma32, fma64_to

Array = NDArray[Any]
Function = Callable[..., Array]


def _form(instruction: Instruction, allowed: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, set[str]]:
    *modifiers, kind = instruction.op[1:]
    if kind not in kinds or any(m not in allowed for m in modifiers):
        raise UnsupportedInstructionError(instruction.text)
    if "ftz" in modifiers and kind not in ("f32", "f16", "f16x2"):
        raise UnsupportedInstructionError(instruction.text)
    return kind, set(modifiers)


def _flush16(value: Array) -> Array:
    small = np.abs(value) < np.float16(2.0**-14)
    return np.where(small, np.copysign(np.float16(0), value), value) if small.any() else value


def _dress(function: Function, kind: str, modifiers: set[str]) -> Function:
    """Add flushing, saturation and the canonical NaN around `function`."""
    flusher = flush if kind == "f32" else _flush16
    ftz, saturate = "ftz" in modifiers, "sat" in modifiers

    def dressed(*arguments: Array) -> Array:
        if ftz:
            arguments = tuple(flusher(a) for a in arguments)
        result = function(*arguments)
        if ftz:
            result = flusher(result)
        if saturate:
            one = result.dtype.type(1)
            result = np.where(result > 0, np.minimum(result, one), result.dtype.type(0))  # NaN becomes +0
        return canonical(result)

    return dressed


def _packed(function: Function) -> Function:
    """Apply a function of float16 arrays to both halves of packed words."""

    def both(*arguments: Array) -> Array:
        low = function(*(a.astype(np.uint16).view(np.float16) for a in arguments))
        high = function(*((a >> np.uint32(16)).astype(np.uint16).view(np.float16) for a in arguments))
        top: Array = high.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return low.view(np.uint16) | top

    return both


def _finish(
    instruction: Instruction, slots: Slots, kind: str, modifiers: set[str], count: int, function: Function
) -> Step:
    dressed = _dress(function, "f16" if kind == "f16x2" else kind, modifiers)
    if kind == "f16x2":
        dressed = _packed(dressed)
    return compute(instruction, slots, [kind] * count, kind, dressed)


def _signed_zero(choose: Function, maximum: bool) -> Function:
    def extreme(a: Array, b: Array) -> Array:
        result = choose(a, b)
        equal = a == b  # only zeros of different sign can be equal and differ
        bits: Any = np.uint32 if a.dtype == np.float32 else np.uint16 if a.dtype == np.float16 else np.uint64
        x, y = a.view(bits), b.view(bits)
        merged = x & y if maximum else x | y
        return np.asarray(np.where(equal, merged, result.view(bits)).view(a.dtype))

    return extreme


_TWO: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": _signed_zero(np.fmax, True),
    "min": _signed_zero(np.fmin, False),
}


def decode_arithmetic(instruction: Instruction, slots: Slots) -> Step:
    """add, sub, mul, max, min of f16, f16x2, f32, f64."""
    name = instruction.op[0]
    if name in ("max", "min"):
        kind, modifiers = _form(instruction, ("ftz", "NaN"), ("f16", "f16x2", "f32", "f64"))
        function = _TWO[name]
        if "NaN" in modifiers:
            plain = function

            def strict(a: Array, b: Array) -> Array:
                return np.where((a != a) | (b != b), a.dtype.type(np.nan), plain(a, b))

            function = strict
        return _finish(instruction, slots, kind, modifiers, 2, function)
    kind, modifiers = _form(instruction, ("rn", "ftz", "sat"), ("f16", "f16x2", "f32", "f64"))
    return _finish(instruction, slots, kind, modifiers, 2, _TWO[name])


def decode_fma(instruction: Instruction, slots: Slots) -> Step:
    """fma.rn of f16, f16x2 and f32: one rounding."""
    kind, modifiers = _form(instruction, ("rn", "ftz", "sat"), ("f16", "f16x2", "f32"))
    function: Function = fma32
    if kind != "f32":

        def function(a: Array, b: Array, c: Array) -> Array:
            return fma64_to(a, b, c, np.float16)

    return _finish(instruction, slots, kind, modifiers, 3, function)


def decode_divide(instruction: Instruction, slots: Slots) -> Step:
    """div.rn, div.full and div.approx of f32, div.rn of f64."""
    kind, modifiers = _form(instruction, ("rn", "full", "approx", "ftz"), ("f32", "f64"))
    if "rn" in modifiers:
        return _finish(instruction, slots, kind, modifiers, 2, lambda a, b: a / b)
    if kind != "f32":
        raise UnsupportedInstructionError(instruction.text)
    return _finish(instruction, slots, kind, modifiers, 2, approximations.divide_full)


def _negate(a: Array) -> Array:
    return np.negative(a)


_APPROXIMATE: dict[str, Function] = {
    "ex2": approximations.exp2,
    "lg2": approximations.log2,
    "sin": approximations.sine,
    "cos": approximations.cosine,
    "tanh": approximations.tangent_hyperbolic,
    "rcp": approximations.reciprocal,
    "sqrt": approximations.square_root,
    "rsqrt": approximations.reciprocal_square_root,
}


def decode_unary(instruction: Instruction, slots: Slots) -> Step:
    """neg, abs; ex2, lg2, sin, cos, tanh, rcp, sqrt, rsqrt (approx; rn for rcp and sqrt)."""
    name = instruction.op[0]
    if name in ("neg", "abs"):
        kind, modifiers = _form(instruction, ("ftz",), ("f16", "f16x2", "f32", "f64"))
        return _finish(instruction, slots, kind, modifiers, 1, _negate if name == "neg" else np.abs)
    kind, modifiers = _form(instruction, ("approx", "rn", "ftz"), ("f32",))
    if ("rn" in modifiers) == ("approx" in modifiers) or ("rn" in modifiers and name not in ("rcp", "sqrt")):
        raise UnsupportedInstructionError(instruction.text)
    function = _APPROXIMATE[name]
    if "rn" in modifiers:
        function = np.sqrt if name == "sqrt" else np.reciprocal
    return _finish(instruction, slots, kind, modifiers, 1, function)


def decode_copysign(instruction: Instruction, slots: Slots) -> Step:
    """copysign: the sign of the first operand and the magnitude of the second."""
    kind, _ = _form(instruction, (), ("f32", "f64"))
    return compute(instruction, slots, [kind, kind], kind, lambda a, b: np.copysign(b, a))


# Comparison -----------------------------------------------------------------------------------------------

_ORDERED: dict[str, Function] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
}
_INTEGER: dict[str, Function] = {
    **{name: _ORDERED[name] for name in ("eq", "lt", "le", "gt", "ge")},
    "ne": lambda a, b: a != b,
    "lo": _ORDERED["lt"],
    "ls": _ORDERED["le"],
    "hi": _ORDERED["gt"],
    "hs": _ORDERED["ge"],
}
_COMBINE: dict[str, Function] = {
    "and": lambda p, c: p & c,
    "or": lambda p, c: p | c,
    "xor": lambda p, c: p ^ c,
}


def decode_setp(instruction: Instruction, slots: Slots) -> Step:
    """setp: p (and q = its complement), combined with a further predicate by .and, .or, .xor."""
    compare, *modifiers, kind = instruction.op[1:]
    table = _ORDERED if kind in BITS and is_float(kind) else _INTEGER
    if kind not in BITS or kind in ("bf16", "f16x2", "bf16x2", "pred") or compare not in table:
        raise UnsupportedInstructionError(instruction.text)
    if kind[0] == "b" and compare not in ("eq", "ne"):
        raise UnsupportedInstructionError(instruction.text)
    combine = [m for m in modifiers if m in _COMBINE]
    rest = [m for m in modifiers if m not in _COMBINE]
    if len(combine) > 1 or any(m != "ftz" or kind != "f32" for m in rest):
        raise UnsupportedInstructionError(instruction.text)
    operands = instruction.operands
    if len(operands) != (4 if combine else 3):
        raise UnsupportedInstructionError(instruction.text)
    function, ftz = table[compare], bool(rest)
    first, second = (slots.read(o, kind, instruction) for o in operands[1:3])
    target = operands[0]
    one, two = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    put = slots.write(one, "pred", instruction)
    put_other = None if two is None else slots.write(two, "pred", instruction)
    third = slots.read(operands[3], "pred", instruction) if combine else None
    merge = _COMBINE[combine[0]] if combine else None

    def step(machine: Machine) -> None:
        a, b = first(machine), second(machine)
        if ftz:
            a, b = flush(a), flush(b)
        result = function(a, b)
        other = ~result if put_other is not None else result
        if merge is not None and third is not None:
            c = third(machine)
            result, other = merge(result, c), merge(other, c)
        put(machine, result)
        if put_other is not None:
            put_other(machine, other)

    return step


def decode_selp(instruction: Instruction, slots: Slots) -> Step:
    """selp: the first source where the predicate holds, else the second."""
    (kind,) = instruction.op[1:] if len(instruction.op) == 2 else ("",)
    if kind not in BITS or kind == "pred":
        raise UnsupportedInstructionError(instruction.text)
    own = numpy_type(kind)

    def select(a: Array, b: Array, p: Array) -> Array:
        if p.size == 1:
            return a if p[0] else b
        return np.where(p, a, b).astype(own, copy=False)

    return compute(instruction, slots, [kind, kind, "pred"], kind, select)
