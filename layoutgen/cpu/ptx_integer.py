"""PTX integer, logic and comparison-free instructions (PTX ISA, "Integer Arithmetic", "Logic and Shift")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.ptx_operands import Slots
from layoutgen.cpu.ptx_program import Immediate, Instruction, UnsupportedInstructionError
from layoutgen.cpu.ptx_types import BITS, is_signed, storage

Array = NDArray[Any]
Function = Callable[..., Array]


def compute(instruction: Instruction, slots: Slots, kinds: list[str], result: str, function: Function) -> Step:
    """A step that applies `function` to the sources, read as types `kinds`, and writes a `result`."""
    if len(instruction.operands) != len(kinds) + 1:
        raise UnsupportedInstructionError(instruction.text, f"{len(kinds) + 1} operands expected")
    put = slots.write(instruction.operands[0], result, instruction)
    read = [slots.read(o, k, instruction) for o, k in zip(instruction.operands[1:], kinds, strict=True)]
    if len(read) == 1:
        (one,) = read

        def step1(machine: Machine) -> None:
            put(machine, function(one(machine)))

        return step1
    if len(read) == 2:
        first, second = read

        def step2(machine: Machine) -> None:
            put(machine, function(first(machine), second(machine)))

        return step2

    def step(machine: Machine) -> None:
        put(machine, function(*(one(machine) for one in read)))

    return step


def integer_kind(instruction: Instruction, modifiers: tuple[str, ...] = ()) -> str:
    """The instruction's integer type; raises UnsupportedInstructionError on any modifier not in
    `modifiers`."""
    *rest, kind = instruction.op[1:]
    if kind not in BITS or kind[0] not in "bus" or any(m not in modifiers for m in rest):
        raise UnsupportedInstructionError(instruction.text)
    return kind


def _wide(kind: str) -> str:
    return f"{kind[0]}{2 * BITS[kind]}"


def _multiply_high(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    if bits < 64:
        big: Any = np.int64 if a.dtype.kind == "i" else np.uint64
        result: Array = ((a.astype(big) * b.astype(big)) >> big(bits)).astype(a.dtype)
        return result
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    carry = (middle & low) + x0 * y1
    high = x1 * y1 + (middle >> half) + (carry >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, 0) - np.where(b < 0, x, 0)
    return np.asarray(high).view(a.dtype)


def _divide(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient * safe != a) & ((a < 0) != (safe < 0)))
    ones = np.array(-1).astype(a.dtype)
    return np.where(b == 0, ones, quotient).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    return np.where(b == 0, a, a - _divide(a, safe) * safe).astype(a.dtype)


_MULTIPLY: dict[str, Function] = {"lo": lambda a, b: a * b, "hi": _multiply_high}


def decode_arithmetic(instruction: Instruction, slots: Slots) -> Step:
    """add, sub, min, max, div, rem, and, or, xor of two integers (or predicates)."""
    name = instruction.op[0]
    if instruction.op[1:] == ("pred",) and name in ("and", "or", "xor"):
        return compute(instruction, slots, ["pred"] * 2, "pred", _TWO[name])
    kind = integer_kind(instruction)
    return compute(instruction, slots, [kind, kind], kind, _TWO[name])


_TWO: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "min": np.minimum,
    "max": np.maximum,
    "div": _divide,
    "rem": _remainder,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def decode_multiply(instruction: Instruction, slots: Slots) -> Step:
    """mul and mad: lo, hi, wide."""
    kind = integer_kind(instruction, ("lo", "hi", "wide"))
    how = instruction.op[1]
    mad = instruction.op[0] == "mad"
    if how == "wide":
        big = numpy_wide(kind)

        def wide(a: Array, b: Array) -> Array:
            result: Array = a.astype(big) * b.astype(big)
            return result

        result, product = _wide(kind), wide
    elif how in _MULTIPLY:
        result, product = kind, _MULTIPLY[how]
    else:
        raise UnsupportedInstructionError(instruction.text)
    if mad:
        return compute(instruction, slots, [kind, kind, result], result, lambda a, b, c: product(a, b) + c)
    return compute(instruction, slots, [kind, kind], result, product)


def numpy_wide(kind: str) -> Any:
    """The NumPy type of the product of two integers of type `kind`."""
    return {"u16": np.uint32, "s16": np.int32, "u32": np.uint64, "s32": np.int64}[kind]


def decode_unary(instruction: Instruction, slots: Slots) -> Step:
    """not, cnot, neg, abs, clz, popc, brev."""
    name = instruction.op[0]
    if name == "not" and instruction.op[1:] == ("pred",):
        return compute(instruction, slots, ["pred"], "pred", np.logical_not)
    kind = integer_kind(instruction)
    result = "u32" if name in ("clz", "popc") else kind
    return compute(instruction, slots, [kind], result, _ONE[name])


def _bit_length(a: Array) -> Array:
    length = np.zeros(a.shape, np.uint32)
    rest = a.copy()
    shift = a.dtype.itemsize * 4
    while shift:
        big = rest >> a.dtype.type(shift) != 0
        length += np.where(big, np.uint32(shift), np.uint32(0))
        rest = np.where(big, rest >> a.dtype.type(shift), rest)
        shift //= 2
    result: Array = length + (rest != 0)
    return result


def _count_bits(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32) if hasattr(np, "bitwise_count") else _count_bits_slowly(a)


def _count_bits_slowly(a: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(a).view(np.uint8)).reshape(*a.shape, -1)
    result: Array = bits.sum(axis=-1, dtype=np.uint32)
    return result


def _reverse(a: Array) -> Array:
    out = np.zeros_like(a)
    for bit in range(a.dtype.itemsize * 8):
        out = (out << a.dtype.type(1)) | ((a >> a.dtype.type(bit)) & a.dtype.type(1))
    return out


_ONE: dict[str, Function] = {
    "not": lambda a: ~a,
    "cnot": lambda a: (a == 0).astype(a.dtype),
    "neg": lambda a: a * a.dtype.type(-1),
    "abs": np.abs,
    "clz": lambda a: np.uint32(a.dtype.itemsize * 8) - _bit_length(a),
    "popc": _count_bits,
    "brev": _reverse,
}


def decode_shift(instruction: Instruction, slots: Slots) -> Step:
    """shl and shr; amounts beyond the width shift everything out (PTX clamps them)."""
    kind = integer_kind(instruction)
    bits = BITS[kind]
    own = storage(bits)

    def left(a: Array, n: Array) -> Array:
        return np.asarray(np.where(n < bits, a << np.minimum(n, bits - 1).astype(own), own(0)))

    def right(a: Array, n: Array) -> Array:
        if a.dtype.kind == "i":
            return np.asarray(a >> np.minimum(n, bits - 1).astype(a.dtype))
        return np.asarray(np.where(n < bits, a >> np.minimum(n, bits - 1).astype(own), own(0)))

    if instruction.op[0] == "shl":
        kind = f"b{bits}"
        return compute(instruction, slots, [kind, "u32"], kind, left)
    return compute(instruction, slots, [kind, "u32"], kind, right)


def decode_funnel(instruction: Instruction, slots: Slots) -> Step:
    """shf.l and shf.r, .wrap and .clamp, .b32."""
    if instruction.op[1:] not in {(d, m, "b32") for d in "lr" for m in ("wrap", "clamp")}:
        raise UnsupportedInstructionError(instruction.text)
    left, wrap = instruction.op[1] == "l", instruction.op[2] == "wrap"

    def funnel(low: Array, high: Array, amount: Array) -> Array:
        n = (amount & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))).astype(np.uint64)
        both = (high.astype(np.uint64) << np.uint64(32)) | low
        shifted = both >> (np.uint64(32) - n) if left else both >> n
        return shifted.astype(np.uint32)

    return compute(instruction, slots, ["b32", "b32", "u32"], "b32", funnel)


def decode_bit_field(instruction: Instruction, slots: Slots) -> Step:
    """bfe and bfi (32 and 64 bits)."""
    kind = integer_kind(instruction)
    bits = BITS[kind]
    own = storage(bits)
    everything = own((1 << bits) - 1)

    def ones(length: Array) -> Array:
        result: Array = np.where(
            length >= bits, everything, (own(1) << np.minimum(length, bits - 1).astype(own)) - own(1)
        )
        return result

    def shift(value: Array, n: Array, left: bool) -> Array:
        amount = np.minimum(n, bits - 1).astype(own)
        result: Array = np.where(n >= bits, own(0), value << amount if left else value >> amount)
        return result

    def extract(a: Array, position: Array, length: Array) -> Array:
        position, length = position & np.uint32(255), length & np.uint32(255)
        value = a.view(own)
        field = shift(value, position, False) & ones(length)
        if not is_signed(kind):
            return field
        last = np.minimum(position + length - np.uint32(1), np.uint32(bits - 1))
        sign = np.where(length == 0, own(0), (value >> last.astype(own)) & own(1))
        return np.where(sign != 0, field | ~ones(np.clip(bits - position.astype(np.int64), 0, length)), field)

    def insert(a: Array, b: Array, position: Array, length: Array) -> Array:
        position, length = position & np.uint32(255), length & np.uint32(255)
        mask = shift(ones(length), position, True)
        return (shift(a, position, True) & mask) | (b & ~mask)

    if instruction.op[0] == "bfe":
        return compute(instruction, slots, [kind, "u32", "u32"], kind, extract)
    return compute(instruction, slots, [kind, kind, "u32", "u32"], kind, insert)


def decode_permute(instruction: Instruction, slots: Slots) -> Step:
    """prmt.b32 in its default mode: four bytes out of eight, each perhaps as its sign."""
    if instruction.op != ("prmt", "b32"):
        raise UnsupportedInstructionError(instruction.text)

    selected = instruction.operands[3] if len(instruction.operands) == 4 else None
    if isinstance(selected, Immediate) and not selected.value & 0x8888:
        moves = _moves(selected.value)
        return compute(instruction, slots, ["b32", "b32", "b32"], "b32", lambda a, b, _: _move(a, b, moves))

    def permute(a: Array, b: Array, selector: Array) -> Array:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        out = np.zeros(np.broadcast_shapes(both.shape, selector.shape), np.uint64)
        for byte in range(4):
            nibble = (selector >> np.uint32(4 * byte)).astype(np.uint64) & np.uint64(15)
            value = (both >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
            signs = np.where(value & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            out |= np.where(nibble & np.uint64(8), signs, value) << np.uint64(8 * byte)
        return out.astype(np.uint32)

    return compute(instruction, slots, ["b32", "b32", "b32"], "b32", permute)


def _moves(selector: int) -> list[tuple[int, int, int]]:
    """(source 0 or 1, bits to the left, mask) such that the moves together give the selected bytes."""
    masks: dict[tuple[int, int], int] = {}
    for byte in range(4):
        source, place = divmod(selector >> 4 * byte & 7, 4)
        key = (source, 8 * (byte - place))
        masks[key] = masks.get(key, 0) | 0xFF << 8 * byte
    return [(source, left, mask) for (source, left), mask in masks.items()]


def _move(a: Array, b: Array, moves: list[tuple[int, int, int]]) -> Array:
    out: Array | None = None
    for source, left, mask in moves:
        value = b if source else a
        if left:
            value = value << np.uint32(left) if left > 0 else value >> np.uint32(-left)
        value = value & np.uint32(mask)
        out = value if out is None else out | value
    assert out is not None
    return out


def decode_lop3(instruction: Instruction, slots: Slots) -> Step:
    """lop3.b32 with its table as a literal."""
    if instruction.op != ("lop3", "b32"):
        raise UnsupportedInstructionError(instruction.text)

    def look_up(a: Array, b: Array, c: Array, table: Array) -> Array:
        number = int(table[0])
        out = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for index in range(8):
            if number >> index & 1:
                out |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
        return out

    return compute(instruction, slots, ["b32"] * 4, "b32", look_up)
