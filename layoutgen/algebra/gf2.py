"""Linear algebra over GF(2) on packed columns.

A matrix is a sequence of columns, one per input bit, fastest first; a column is an integer whose bit i is
the matrix entry in row i. Addition is exclusive or, so a matrix of up to 64 rows needs one machine word
per column, and everything below is a handful of integer operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def apply(columns: Sequence[int], vector: int) -> int:
    """Return the product of the matrix with a packed vector.

    >>> apply((0b01, 0b11), 0b10)
    3
    """
    image = 0
    while vector:
        low = vector & -vector
        image ^= columns[low.bit_length() - 1]
        vector ^= low
    return image


def compose(outer: Sequence[int], inner: Sequence[int]) -> tuple[int, ...]:
    """Return the columns of `outer` after `inner`.

    >>> compose((0b10, 0b01), (0b01, 0b11))
    (2, 3)
    """
    return tuple(apply(outer, column) for column in inner)


@dataclass(frozen=True)
class Echelon:
    """A column echelon form that remembers how it was reached.

    `pivots` maps a leading row to (column, combination): the reduced column whose highest set bit is that
    row, and the packed set of the original columns that sum to it. `kernel` is a basis of the null space,
    as packed sets of original columns that sum to zero.
    """

    pivots: dict[int, tuple[int, int]]
    kernel: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.pivots)

    def reduce(self, vector: int) -> int:
        """Return the representative of a vector modulo the span: linear, and zero exactly on the span.

        >>> echelon((0b11,)).reduce(0b10)
        1
        """
        for row in sorted(self.pivots, reverse=True):
            if vector >> row & 1:
                vector ^= self.pivots[row][0]
        return vector

    def preimage(self, vector: int) -> int | None:
        """Return a packed input that maps to `vector`, or None when there is none."""
        combination = 0
        while vector:
            pivot = self.pivots.get(vector.bit_length() - 1)
            if pivot is None:
                return None
            vector ^= pivot[0]
            combination ^= pivot[1]
        return combination


def echelon(columns: Iterable[int]) -> Echelon:
    """Reduce the columns.

    >>> echelon((1, 2, 3)).kernel
    (7,)
    """
    pivots: dict[int, tuple[int, int]] = {}
    kernel: list[int] = []
    for index, column in enumerate(columns):
        combination = 1 << index
        while column:
            row = column.bit_length() - 1
            pivot = pivots.get(row)
            if pivot is None:
                pivots[row] = (column, combination)
                break
            column ^= pivot[0]
            combination ^= pivot[1]
        else:
            kernel.append(combination)
    return Echelon(pivots, tuple(kernel))


def rank(columns: Iterable[int]) -> int:
    """Return the dimension of the image.

    >>> rank((1, 2, 3))
    2
    """
    return echelon(columns).rank


def invert(columns: Sequence[int], rows: int) -> tuple[int, ...] | None:
    """Return the inverse of a square matrix with `rows` rows, or None when it is singular.

    >>> invert((0b01, 0b11), 2)
    (1, 3)
    >>> invert((0b01, 0b01), 2) is None
    True
    """
    if len(columns) != rows:
        return None
    reduced = echelon(columns)
    if reduced.rank != rows:
        return None
    inverse = [reduced.preimage(1 << row) for row in range(rows)]
    return tuple(column for column in inverse if column is not None)
