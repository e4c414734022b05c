"""The layouts and atoms that the fast design of attention is built from, and what a request that names none gets."""

from __future__ import annotations

from functools import cache

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import Atom
from layoutgen.errors import LayoutgenError
from layoutgen.plan.rows import stage_rows
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.tiling import derive
from layoutgen.tiling.words import deepened, oriented, runs_along

WIDEST_PAIR = 128
"""The most columns of O for which a thread can hold those of two units of rows, next to S."""


def first_step(fetched: LinearLayout, fragment: LinearLayout) -> LinearLayout:
    """Return the first k-step of a fetched vector: without its highest registers."""
    registers, kept = fetched.domain.bits_of("register"), fragment.domain.bits_of("register")
    columns = [column for bit, column in enumerate(fetched.columns) if not kept <= bit < registers]
    size = fragment.codomain.dims[1][1]
    low = []
    for column in columns:
        row, k = fetched.codomain.unpack(column)
        low.append(fragment.codomain.pack((row, k & (1 << size) - 1)))
    return LinearLayout(fragment.domain, fragment.codomain, tuple(low))


def check_atom(atom: Atom) -> None:
    """Refuse an atom that the design cannot be built from.

    S spends two free lane bits, and takes Q and K as they lie in memory: along the head dim.
    """
    if len(atom.free_lane_bits) != 2:
        raise LayoutgenError(
            f"design fast: is built on two free lane bits; {atom.alias} has {len(atom.free_lane_bits)}: "
            "take --design simple"
        )
    along = [runs_along(atom, operand) for operand in "ab"]
    if along != ["k", "k"]:
        raise LayoutgenError(
            f"design fast: Q and K are fetched along the head dim; a thread has neighbours of {atom.alias}'s operands "
            f"along {' and '.join(along)}: take --atom {oriented(atom, 'k', 'k').alias}"
        )


@cache
def arrangements_of(atom: Atom) -> tuple[str, str]:
    """Return the arrangements of S and of O: rows of Q without conflicts, and the key bit that can be gathered."""
    k = atom.shape[2]
    key_bit = k.bit_length() - 1
    top = atom.shape[1].bit_length() - 1

    def cost(row_bit: int) -> int:
        tiling = derive(atom, 32, 32, (1, 1), f"m{row_bit},n{key_bit}")
        fragment = deepened(tiling.fragment_a, VECTOR_BYTES // 2 // k)
        return stage_rows((32, 32), fragment, 2, 1).fetched_access(fragment).wavefronts

    row_bit = min(range(atom.shape[0].bit_length()), key=lambda bit: (cost(bit), -bit))
    return f"m{row_bit},n{key_bit}", f"m{row_bit},n{top}"


def usual_column_warps(value_dim: int) -> int:
    """Return how many warps divide the columns of O among themselves for requests that do not say.

    As few as leave a thread those of two units of rows.

    >>> [usual_column_warps(value_dim) for value_dim in (96, 128, 192, 256, 512)]
    [1, 1, 2, 2, 4]
    """
    return 1 << (-(-value_dim // WIDEST_PAIR) - 1).bit_length()


def usual_row_blocks(parts: tuple[int, ...], column_warps: int) -> int:
    """Return the units along the rows of a warp for requests that name none: two, or one if O takes too much."""
    return 2 if sum(parts) <= WIDEST_PAIR * column_warps else 1
