# ruff: noqa: ARG005, E501 - a table: a line a snippet, and formulas that all take three operands
"""PTX snippets that are assembled at every optimisation level, with a NumPy formula where one is short.

A snippet computes %o (b32) from %a, %b, %c (b32); %x0 to %x3 are b32, %w0 to %w3 b64, %h0 to %h3 b16 and %q0 to %q2
predicates to work with. Formulas take uint32 arrays and return uint32.
"""

from __future__ import annotations

import numpy as np

LEVELS = ("-O0", "-O1", "-O2", "-O3")
NAN32, NAN16 = 0x7FFFFFFF, 0x7FFF

FLOAT_EDGES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.0**-126, 2.0**-127, -(2.0**-149), 2.0**126, -(2.0**127), 3.4028235e38,
    float("inf"), float("-inf"), float("nan"), 65504.0, 65520.0, 2.0**-24, 2.0**-25, 6.1035156e-05, 2147483648.0, 4.2e9,
)  # fmt: skip
INTEGER_EDGES = (
    0, 1, 2, 3, 5, 7, 8, 15, 16, 23, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
    0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x3C003C00, 0x7C00FC00, 0x7E003C00, 0x04000001,
)  # fmt: skip


def operands(count: int, seed: int) -> list[np.ndarray]:
    """Three arrays of words: a third edges against edges, a third edges against noise, a third plain floats."""
    rng = np.random.default_rng(seed)
    edges = np.concatenate([np.array(FLOAT_EDGES, np.float32).view(np.uint32), np.array(INTEGER_EDGES, np.uint32)])
    arrays = []
    for _ in range(3):
        noise = rng.integers(0, 1 << 32, count, dtype=np.uint32)
        floats = (rng.standard_normal(count) * 4.0 ** rng.integers(-4, 5, count)).astype(np.float32).view(np.uint32)
        kind = rng.integers(0, 3, count)
        arrays.append(np.where(kind == 0, rng.choice(edges, count), np.where(kind == 1, noise, floats)))
    return arrays


def f32(word):
    return word.view(np.float32)


def bits32(value):
    value = np.asarray(value, np.float32)
    return np.where(value != value, np.uint32(NAN32), value.view(np.uint32))


def signed(word):
    return word.view(np.int32)


def wide(word):
    return word.astype(np.uint64)


INTEGER = {
    "add": ("add.s32 %o, %a, %b;", lambda a, b, c: a + b),
    "sub": ("sub.s32 %o, %a, %b;", lambda a, b, c: a - b),
    "add3": ("add.s32 %o, %a, %b; sub.s32 %o, %o, %c;", lambda a, b, c: a + b - c),
    "neg": ("neg.s32 %o, %a;", lambda a, b, c: np.negative(a)),
    "mul": ("mul.lo.s32 %o, %a, %b;", lambda a, b, c: a * b),
    "mul constant": ("mul.lo.s32 %o, %a, 96;", lambda a, b, c: a * np.uint32(96)),
    "mad": ("mad.lo.s32 %o, %a, %b, %c;", lambda a, b, c: a * b + c),
    "mad constant": ("mad.lo.u32 %o, %a, 8, 0x8000;", lambda a, b, c: a * np.uint32(8) + np.uint32(0x8000)),
    "mul.hi.u32": ("mul.hi.u32 %o, %a, %b;", lambda a, b, c: (wide(a) * wide(b) >> np.uint64(32)).astype(np.uint32)),
    "mul.hi.s32": (
        "mul.hi.s32 %o, %a, %b;",
        lambda a, b, c: (signed(a).astype(np.int64) * signed(b) >> 32).astype(np.uint32),
    ),
    "wide sum": ("mul.wide.u32 %w0, %a, %b; cvt.u64.u32 %w1, %c; add.s64 %w0, %w0, %w1; mov.b64 {%x0, %o}, %w0;", None),
    "wide signed": ("mul.wide.s32 %w0, %a, %b; mov.b64 %w1, {%c, %a}; add.s64 %w0, %w0, %w1; mov.b64 {%x0, %o}, %w0;", None),
    "mad.wide": ("mov.b64 %w1, {%c, %a}; mad.wide.u32 %w0, %a, %b, %w1; mov.b64 {%x0, %x1}, %w0; xor.b32 %o, %x0, %x1;", None),
    "mul.lo.s64": (
        "mov.b64 %w0, {%a, %b}; mov.b64 %w1, {%c, %a}; mul.lo.s64 %w0, %w0, %w1; mov.b64 {%x0, %o}, %w0;",
        lambda a, b, c: ((wide(a) | wide(b) << np.uint64(32)) * (wide(c) | wide(a) << np.uint64(32)) >> np.uint64(32)).astype(
            np.uint32
        ),
    ),
    "add.s64": (
        "mov.b64 %w0, {%a, %b}; mov.b64 %w1, {%c, %a}; add.s64 %w0, %w0, %w1; mov.b64 {%x0, %o}, %w0;",
        lambda a, b, c: ((wide(a) | wide(b) << np.uint64(32)) + (wide(c) | wide(a) << np.uint64(32)) >> np.uint64(32)).astype(
            np.uint32
        ),
    ),
    "sub.s64": ("mov.b64 %w0, {%a, %b}; mov.b64 %w1, {%c, %a}; sub.s64 %w0, %w0, %w1; mov.b64 {%x0, %o}, %w0;", None),
    "scaled 64": ("cvt.s64.s32 %w0, %a; shl.b64 %w0, %w0, 1; mov.b64 %w1, {%b, %c}; add.s64 %w0, %w0, %w1; mov.b64 {%x0, %o}, %w0;", None),
    "scaled 64 u": ("cvt.u64.u32 %w0, %a; shl.b64 %w0, %w0, 3; mov.b64 %w1, {%b, %c}; add.s64 %w0, %w0, %w1; mov.b64 {%x0, %x1}, %w0; add.s32 %o, %x0, %x1;", None),
    "compare 64": (
        "mov.b64 %w0, {%a, %b}; mov.b64 %w1, {%c, %a}; setp.lt.s64 %q0, %w0, %w1; setp.ge.s64 %q1, %w0, %w1;"
        " setp.eq.s64 %q2, %w0, %w1; selp.u32 %x0, 1, 0, %q0; selp.u32 %x1, 2, 0, %q1; selp.u32 %x2, 4, 0, %q2;"
        " add.s32 %o, %x0, %x1; add.s32 %o, %o, %x2;",
        None,
    ),
    "compare 64 u": (
        "mov.b64 %w0, {%a, %b}; mov.b64 %w1, {%c, %b}; setp.gt.u64 %q0, %w0, %w1; setp.le.u64 %q1, %w0, %w1;"
        " setp.ne.s64 %q2, %w0, %w1; selp.u32 %x0, 1, 0, %q0; selp.u32 %x1, 2, 0, %q1; selp.u32 %x2, 4, 0, %q2;"
        " add.s32 %o, %x0, %x1; add.s32 %o, %o, %x2;",
        None,
    ),
    "compare": (
        "setp.lt.s32 %q0, %a, %b; setp.gt.u32 %q1, %a, %b; setp.ne.s32 %q2, %b, %c; selp.u32 %x0, 1, 0, %q0;"
        " selp.u32 %x1, 2, 0, %q1; selp.u32 %x2, 4, 0, %q2; add.s32 %o, %x0, %x1; add.s32 %o, %o, %x2;",
        lambda a, b, c: (
            (signed(a) < signed(b)).astype(np.uint32)
            + np.uint32(2) * (a > b).astype(np.uint32)
            + np.uint32(4) * (b != c).astype(np.uint32)
        ),
    ),
    "combined": (
        "setp.lt.s32 %q0, %a, %b; setp.ge.and.u32 %q1, %b, %c, %q0; setp.eq.or.s32 %q2, %a, %c, %q1;"
        " selp.b32 %o, %a, %b, %q2;",
        lambda a, b, c: np.where((a == c) | ((b >= c) & (signed(a) < signed(b))), a, b),
    ),
    "predicates": (
        "setp.lt.s32 %q0, %a, %b; setp.lt.s32 %q1, %b, %c; xor.pred %q2, %q0, %q1; not.pred %q0, %q0;"
        " or.pred %q2, %q2, %q0; and.pred %q2, %q2, %q1; selp.b32 %o, %a, %b, %q2;",
        lambda a, b, c: np.where(
            (((signed(a) < signed(b)) ^ (signed(b) < signed(c))) | ~(signed(a) < signed(b))) & (signed(b) < signed(c)), a, b
        ),
    ),
    "min max": ("min.s32 %x0, %a, %b; max.u32 %x1, %b, %c; sub.s32 %o, %x0, %x1;", lambda a, b, c: np.minimum(signed(a), signed(b)).view(np.uint32) - np.maximum(b, c)),
    "div": ("or.b32 %x0, %b, 1; div.u32 %o, %a, %x0;", lambda a, b, c: a // (b | np.uint32(1))),
    "shr.s32 less": ("shr.s32 %x0, %a, 5; sub.s32 %o, %x0, %b;", lambda a, b, c: (signed(a) >> 5).view(np.uint32) - b),
    "shr.u32 less": ("shr.u32 %x0, %a, 5; sub.s32 %o, %x0, %b;", lambda a, b, c: (a >> np.uint32(5)) - b),
    "shl less": ("shl.b32 %x0, %a, 5; sub.s32 %o, %x0, %b;", lambda a, b, c: (a << np.uint32(5)) - b),
    "less shl": ("shl.b32 %x0, %a, 5; sub.s32 %o, %b, %x0;", lambda a, b, c: b - (a << np.uint32(5))),
    "shl less, wide": ("mov.b64 %w0, {%a, %b}; shl.b64 %w0, %w0, 5; cvt.u64.u32 %w1, %c; sub.s64 %w0, %w0, %w1; mov.b64 {%x0, %x1}, %w0; xor.b32 %o, %x0, %x1;", None),
    "less shl, wide": ("mov.b64 %w0, {%a, %b}; shl.b64 %w0, %w0, 5; cvt.u64.u32 %w1, %c; sub.s64 %w0, %w1, %w0; mov.b64 {%x0, %x1}, %w0; xor.b32 %o, %x0, %x1;", None),
    "rem": ("or.b32 %x0, %b, 1; rem.s32 %o, %a, %x0;", None),
    "abs": ("abs.s32 %o, %a;", lambda a, b, c: np.abs(signed(a)).view(np.uint32)),
}  # fmt: skip

BITS = {
    "logic": ("and.b32 %x0, %a, %b; or.b32 %x1, %b, %c; xor.b32 %o, %x0, %x1; not.b32 %o, %o;", lambda a, b, c: ~((a & b) ^ (b | c))),
    "lop3": ("lop3.b32 %o, %a, %b, %c, 0xb8;", None),
    "lop3 other": ("lop3.b32 %o, %a, %b, %c, 0x1d;", None),
    "lop3 constant": ("and.b32 %x0, %a, 0x1c; shl.b32 %x1, %b, 5; or.b32 %o, %x0, %x1;", None),
    "shl": ("shl.b32 %o, %a, %b;", lambda a, b, c: np.where(b < 32, a << (b & np.uint32(31)), np.uint32(0))),
    "shr.u32": ("shr.u32 %o, %a, %b;", lambda a, b, c: np.where(b < 32, a >> (b & np.uint32(31)), np.uint32(0))),
    "shr.s32": ("shr.s32 %o, %a, %b;", lambda a, b, c: (signed(a) >> np.minimum(b, 31).astype(np.int32)).view(np.uint32)),
    "shift constants": ("shl.b32 %x0, %a, 7; shr.u32 %x1, %b, 5; shr.s32 %x2, %c, 31; xor.b32 %o, %x0, %x1; xor.b32 %o, %o, %x2;", None),
    "shl.b64": ("mov.b64 %w0, {%a, %b}; shl.b64 %w0, %w0, %c; mov.b64 {%x0, %x1}, %w0; xor.b32 %o, %x0, %x1;", None),
    "shr.u64": ("mov.b64 %w0, {%a, %b}; shr.u64 %w0, %w0, %c; mov.b64 {%x0, %x1}, %w0; sub.s32 %o, %x0, %x1;", None),
    "shr.s64": ("mov.b64 %w0, {%a, %b}; shr.s64 %w0, %w0, %c; mov.b64 {%x0, %x1}, %w0; sub.s32 %o, %x0, %x1;", None),
    "shr.s64 constant": ("mov.b64 %w0, {%a, %b}; shr.s64 %w0, %w0, 9; mov.b64 {%x0, %x1}, %w0; sub.s32 %o, %x0, %x1;", None),
    "shl.b64 constant": ("mov.b64 %w0, {%a, %b}; shl.b64 %w0, %w0, 3; mov.b64 {%x0, %x1}, %w0; sub.s32 %o, %x0, %x1;", None),
    "funnel left": ("shf.l.wrap.b32 %o, %a, %b, %c;", None),
    "funnel right": ("shf.r.wrap.b32 %o, %a, %b, %c;", None),
    "funnel left clamp": ("shf.l.clamp.b32 %o, %a, %b, %c;", None),
    "funnel right clamp": ("shf.r.clamp.b32 %o, %a, %b, %c;", None),
    "bfe.u32": ("and.b32 %x0, %b, 0xff; and.b32 %x1, %c, 0xff; bfe.u32 %o, %a, %x0, %x1;", None),
    "bfe.s32": ("and.b32 %x0, %b, 0xff; and.b32 %x1, %c, 0xff; bfe.s32 %o, %a, %x0, %x1;", None),
    "bfe constants": ("bfe.u32 %x0, %a, 3, 9; bfe.s32 %x1, %b, 5, 11; add.s32 %o, %x0, %x1;", None),
    "sign of a byte": ("cvt.s32.s8 %o, %a;", lambda a, b, c: a.astype(np.int8).astype(np.int32).view(np.uint32)),
    "prmt": ("prmt.b32 %o, %a, %b, %c;", None),
    "prmt constants": ("prmt.b32 %x0, %a, %b, 0x5410; prmt.b32 %x1, %b, %c, 0x7632; prmt.b32 %x2, %a, %c, 0x3715; xor.b32 %o, %x0, %x1; xor.b32 %o, %o, %x2;", None),
    "prmt sign": ("prmt.b32 %o, %a, %b, 0xba98;", None),
    "halves": ("mov.b32 {%h0, %h1}, %a; mov.b32 {%h2, %h3}, %b; mov.b32 %o, {%h3, %h0};", lambda a, b, c: b >> np.uint32(16) | a << np.uint32(16)),
    "popc": ("popc.b32 %o, %a;", None),
    "brev": ("brev.b32 %o, %a;", None),
    "clz": ("clz.b32 %o, %a;", None),
}  # fmt: skip

FLOAT = {
    "add": ("add.f32 %o, %a, %b;", lambda a, b, c: bits32(f32(a) + f32(b))),
    "sub": ("sub.f32 %o, %a, %b;", lambda a, b, c: bits32(f32(a) - f32(b))),
    "mul": ("mul.f32 %o, %a, %b;", lambda a, b, c: bits32(f32(a) * f32(b))),
    "mul ftz": ("mul.ftz.f32 %o, %a, %b;", None),
    "add ftz": ("add.ftz.f32 %o, %a, %b;", None),
    "constants": ("mul.f32 %x0, %a, 0f3FB8AA3B; add.f32 %x1, %b, 0fBF800000; mul.f32 %o, %x0, %x1;", lambda a, b, c: bits32((f32(a) * np.float32(1.442695)) * (f32(b) - np.float32(1)))),
    "fma": ("fma.rn.f32 %o, %a, %b, %c;", None),
    "fma ftz": ("fma.rn.ftz.f32 %o, %a, %b, %c;", None),
    "fma constants": ("fma.rn.f32 %x0, %a, 0f3FB8AA3B, %b; fma.rn.f32 %o, %x0, %c, 0fBE2C7F30;", None),
    "fma negated": ("neg.f32 %x0, %a; fma.rn.f32 %o, %x0, %b, %c;", None),
    "saturated": ("add.sat.f32 %x0, %a, %b; fma.rn.sat.f32 %x1, %a, %b, %c; add.f32 %o, %x0, %x1;", None),
    "neg abs": ("abs.f32 %x0, %a; neg.f32 %x1, %b; add.f32 %o, %x0, %x1;", lambda a, b, c: bits32(np.abs(f32(a)) - f32(b))),
    "min": ("min.f32 %o, %a, %b;", None),
    "max": ("max.f32 %o, %a, %b;", None),
    "max of three": ("max.f32 %x0, %a, %b; max.f32 %o, %x0, %c;", None),
    "compare": (
        "setp.lt.f32 %q0, %a, %b; setp.geu.f32 %q1, %b, %c; setp.neu.f32 %q2, %a, %c; selp.u32 %x0, 1, 0, %q0;"
        " selp.u32 %x1, 2, 0, %q1; selp.u32 %x2, 4, 0, %q2; add.s32 %o, %x0, %x1; add.s32 %o, %o, %x2;",
        lambda a, b, c: (
            (f32(a) < f32(b)).astype(np.uint32)
            + np.uint32(2) * (~(f32(b) < f32(c))).astype(np.uint32)
            + np.uint32(4) * (f32(a) != f32(c)).astype(np.uint32)
        ),
    ),
    "compare more": (
        "setp.ne.f32 %q0, %a, %b; setp.equ.f32 %q1, %b, %c; setp.nan.f32 %q2, %a, %c; selp.u32 %x0, 1, 0, %q0;"
        " selp.u32 %x1, 2, 0, %q1; selp.u32 %x2, 4, 0, %q2; add.s32 %o, %x0, %x1; add.s32 %o, %o, %x2;",
        None,
    ),
    "select": ("setp.gt.f32 %q0, %a, 0f00000000; selp.f32 %o, %b, 0fFF800000, %q0;", lambda a, b, c: np.where(f32(a) > 0, b, np.uint32(0xFF800000))),
    "ex2": ("ex2.approx.ftz.f32 %o, %a;", None),
    "lg2": ("lg2.approx.ftz.f32 %o, %a;", None),
    "rcp": ("rcp.approx.ftz.f32 %o, %a;", None),
    "rsqrt": ("rsqrt.approx.ftz.f32 %o, %a;", None),
    "sqrt.rn": ("sqrt.rn.f32 %o, %a;", lambda a, b, c: bits32(np.sqrt(f32(a)))),
    "div.full": ("div.full.f32 %o, %a, %b;", None),
}  # fmt: skip

HALF = {
    "from f32": ("cvt.rn.f16.f32 %h0, %a; cvt.rn.f16.f32 %h1, %b; mov.b32 %o, {%h0, %h1};", None),
    "to f32": ("mov.b32 {%h0, %h1}, %a; cvt.f32.f16 %x0, %h0; cvt.f32.f16 %x1, %h1; add.f32 %o, %x0, %x1;", None),
    "add": ("add.f16x2 %o, %a, %b;", None),
    "sub": ("sub.f16x2 %o, %a, %b;", None),
    "mul": ("mul.f16x2 %o, %a, %b;", None),
    "fma": ("fma.rn.f16x2 %o, %a, %b, %c;", None),
    "fma scalar": ("mov.b32 {%h0, %h1}, %a; mov.b32 {%h2, %h3}, %b; fma.rn.f16 %h0, %h0, %h3, %h2; mov.b32 %o, {%h0, %h1};", None),
    "add crossed": ("mov.b32 {%h0, %h1}, %a; mov.b32 {%h2, %h3}, %b; add.f16 %h0, %h0, %h3; mul.f16 %h1, %h1, %h2; mov.b32 %o, {%h0, %h1};", None),
    "constants": ("mov.b32 %x0, 0x3c004000; fma.rn.f16x2 %x1, %a, %x0, %b; mov.b32 %x2, 0x38003e00; add.f16x2 %o, %x1, %x2;", None),
    "neg": ("neg.f16x2 %x0, %a; add.f16x2 %o, %x0, %b;", None),
    "compare": ("mov.b32 {%h0, %h1}, %a; mov.b32 {%h2, %h3}, %b; setp.lt.f16 %q0, %h0, %h2; setp.neu.f16 %q1, %h1, %h3; selp.u32 %x0, 1, 0, %q0; selp.u32 %x1, 2, 0, %q1; add.s32 %o, %x0, %x1;", None),
}  # fmt: skip

CONVERT = {
    "s32 to f32": ("cvt.rn.f32.s32 %o, %a;", lambda a, b, c: signed(a).astype(np.float32).view(np.uint32)),
    "u32 to f32": ("cvt.rn.f32.u32 %o, %a;", lambda a, b, c: a.astype(np.float32).view(np.uint32)),
    "u32 to f32 rounded": ("cvt.rn.f32.u32 %x0, %a; cvt.rn.f32.s32 %x1, %b; add.f32 %o, %x0, %x1;", None),
    "f32 to s32": ("cvt.rzi.s32.f32 %o, %a;", None),
    "f32 to u32": ("cvt.rzi.u32.f32 %o, %a;", None),
    "f32 to s32 nearest": ("cvt.rni.s32.f32 %o, %a;", None),
    "floor": ("cvt.rmi.f32.f32 %x0, %a; cvt.rpi.f32.f32 %x1, %b; cvt.rzi.f32.f32 %x2, %c; add.f32 %o, %x0, %x1; add.f32 %o, %o, %x2;", None),
    "s16": ("cvt.u16.u32 %h0, %a; cvt.s32.s16 %o, %h0;", None),
    "u8 to f32": ("and.b32 %x0, %a, 0xff; cvt.rn.f32.u32 %o, %x0;", None),
}  # fmt: skip

WARP = {
    "bfly": ("shfl.sync.bfly.b32 %o, %a, 8, 31, -1;", None),
    "up": ("shfl.sync.up.b32 %o, %a, 3, 0, -1;", None),
    "down": ("shfl.sync.down.b32 %o|%q0, %a, 5, 31, -1; selp.b32 %o, %o, 77, %q0;", None),
    "idx": ("and.b32 %x0, %b, 31; shfl.sync.idx.b32 %o, %a, %x0, 31, -1;", None),
    "segments": ("and.b32 %x0, %b, 31; shfl.sync.idx.b32 %o, %a, %x0, 0x181f, -1;", None),
    "ballot": ("setp.lt.s32 %q0, %a, 0; vote.sync.ballot.b32 %o, %q0, -1;", None),
    "any": ("setp.eq.s32 %q0, %a, 1; vote.sync.any.pred %q1, %q0, -1; selp.u32 %o, 1, 0, %q1;", None),
    "select by lane": ("mov.u32 %x0, %laneid; and.b32 %x1, %x0, 2; setp.eq.s32 %q0, %x1, 0; selp.b32 %x2, %a, %b, %q0; shfl.sync.bfly.b32 %x2, %x2, 2, 31, -1; selp.b32 %o, %x2, %c, %q0;", None),
    "branch": ("setp.lt.s32 %q0, %a, %b; @%q0 bra THEN; mul.lo.s32 %o, %a, 3; bra JOIN;\nTHEN: add.s32 %o, %b, %c;\nJOIN: shfl.sync.bfly.b32 %o, %o, 1, 31, -1;", None),
    "loop": ("and.b32 %x0, %a, 7; mov.b32 %o, %b;\nAGAIN: add.s32 %o, %o, %c; add.s32 %x0, %x0, -1; setp.ge.s32 %q0, %x0, 0; @%q0 bra AGAIN;\nshfl.sync.bfly.b32 %o, %o, 4, 31, -1;", None),
}  # fmt: skip

FAMILIES = {"integer": INTEGER, "bits": BITS, "float": FLOAT, "half": HALF, "convert": CONVERT, "warp": WARP}
