"""Which lane and register holds which element of an mma.sync operand: the ISA's formulas, written down again.

Source: PTX ISA, "Matrix fragments for mma.m8n8k4 with .f16", "... for mma.m16n8k8", "... for mma.m16n8k16
with floating point type". Nothing here is shared with the catalogue of atoms: the executor exists to be
able to contradict it.

A warp computes `groups` independent products: four for m8n8k4 (one a quadpair), one for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.errors import LayoutgenError

Rows = NDArray[np.intp]

LANES = 32


class FragmentError(LayoutgenError):
    """An mma.sync whose shape, storage orders or types have no fragment table here."""


@dataclass(frozen=True)
class Fragments:
    """Where the elements of one instruction's operands lie within a warp.

    Every table holds row numbers into an array of `elements x 32 lanes` rows, row = element * 32 + lane,
    where element counts the values that one lane holds (halves of a packed register count low half first).

    `a[g, m, k]`, `b[g, k, n]`, `c[g, m, n]`, `d[g, m, n]` give the row of that matrix element of group g;
    `a_elements` and so on say how many values a lane holds. m8n8k4's accumulators differ between f16 and f32.
    """

    shape: str
    m: int
    n: int
    k: int
    groups: int
    a: Rows
    b: Rows
    c: Rows
    a_elements: int
    b_elements: int
    c_elements: int


Place = Callable[[int, int], tuple[int, int, int]]
"""(lane, element) -> (group, row, column)."""


def _quadpair(lane: int) -> int:
    return (lane % 16) // 4


def _upper(lane: int) -> int:
    return 4 if lane >= 16 else 0


def _m8n8k4_a(layout: str) -> Place:
    if layout == "row":
        return lambda lane, i: (_quadpair(lane), lane % 4 + _upper(lane), i)
    return lambda lane, i: (_quadpair(lane), i % 4 + _upper(lane), lane % 4)


def _m8n8k4_b(layout: str) -> Place:
    if layout == "row":
        return lambda lane, i: (_quadpair(lane), lane % 4, i + _upper(lane))
    return lambda lane, i: (_quadpair(lane), i, lane % 4 + _upper(lane))


def _m8n8k4_c(kind: str) -> Place:
    if kind == "f16":
        return lambda lane, i: (_quadpair(lane), lane % 4 + _upper(lane), i)
    return lambda lane, i: (
        _quadpair(lane),
        (lane & 0b1) + (i & 0b10) + _upper(lane),
        (i & 0b100) + (lane & 0b10) + (i & 0b1),
    )


def _m16_c(lane: int, i: int) -> tuple[int, int, int]:
    return 0, lane // 4 + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def _m16n8k8_a(lane: int, i: int) -> tuple[int, int, int]:
    return 0, lane // 4 + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def _m16n8k8_b(lane: int, i: int) -> tuple[int, int, int]:
    return 0, (lane % 4) * 2 + i, lane // 4


def _m16n8k16_a(lane: int, i: int) -> tuple[int, int, int]:
    row = lane // 4 + (0 if (0 <= i < 2) or (4 <= i < 6) else 8)
    return 0, row, (lane % 4) * 2 + (i & 1) + (8 if i >= 4 else 0)


def _m16n8k16_b(lane: int, i: int) -> tuple[int, int, int]:
    return 0, (lane % 4) * 2 + (i & 1) + (8 if i >= 2 else 0), lane // 4


def _table(place: Place, elements: int, shape: tuple[int, int, int]) -> Rows:
    table: Any = np.full(shape, -1, np.intp)
    for element in range(elements):
        for lane in range(LANES):
            where = place(lane, element)
            if table[where] >= 0:
                raise FragmentError(f"fragment table: element {where} has two owners")
            table[where] = element * LANES + lane
    if (table < 0).any():
        raise FragmentError(f"fragment table of {shape}: an element has no owner")
    table.setflags(write=False)
    return table  # type: ignore[no-any-return]


@cache
def fragments(shape: str, a_layout: str, b_layout: str, accumulator: str) -> Fragments:
    """The fragment tables of `mma.sync.<shape>.<a_layout>.<b_layout>` with an f16 or f32 accumulator.

    Raises FragmentError for anything but m8n8k4 (four storage orders), m16n8k8 and m16n8k16 (row.col).

    >>> table = fragments("m8n8k4", "row", "col", "f32")
    >>> divmod(int(table.c[0, 3, 1]), 32)       # element, lane that hold D[3, 1] of quadpair 0
    (3, 1)
    """
    if accumulator not in ("f16", "f32"):
        raise FragmentError(f"{shape}: no accumulator of type {accumulator}; f16 and f32 are known")
    if shape == "m8n8k4" and a_layout in ("row", "col") and b_layout in ("row", "col"):
        return Fragments(
            shape, 8, 8, 4, 4,
            _table(_m8n8k4_a(a_layout), 4, (4, 8, 4)),
            _table(_m8n8k4_b(b_layout), 4, (4, 4, 8)),
            _table(_m8n8k4_c(accumulator), 8, (4, 8, 8)),
            4, 4, 8,
        )  # fmt: skip
    if (a_layout, b_layout) == ("row", "col"):
        accumulators = _table(_m16_c, 4, (1, 16, 8))
        if shape == "m16n8k8":
            a, b = _table(_m16n8k8_a, 4, (1, 16, 8)), _table(_m16n8k8_b, 2, (1, 8, 8))
            return Fragments(shape, 16, 8, 8, 1, a, b, accumulators, 4, 2, 4)
        if shape == "m16n8k16":
            a, b = _table(_m16n8k16_a, 8, (1, 16, 16)), _table(_m16n8k16_b, 4, (1, 16, 8))
            return Fragments(shape, 16, 8, 16, 1, a, b, accumulators, 8, 4, 4)
    raise FragmentError(f"no fragment table for mma.sync.{shape}.{a_layout}.{b_layout}")
