"""The layouts and atoms that the fast design of attention is built from, and what a request that names none gets."""

from __future__ import annotations

from functools import cache

from layoutgen.algebra import LinearLayout, Space
from layoutgen.atoms import CATALOGUE, Atom
from layoutgen.errors import LayoutgenError
from layoutgen.plan.rows import stage_rows
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.tiling import derive

WIDEST_PAIR = 128
"""The most columns of O for which a thread can hold those of two units of rows, next to S."""
WIDEST_ALONE = 192
"""The most columns of O for which one unit of rows a warp is taken before warps share rows."""


def deepened(fragment: LinearLayout, steps: int) -> LinearLayout:
    """Return what a thread fetches of `steps` k-steps at once: the steps are the highest registers.

    >>> deepened(LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0]]}, (2, 2)), 2).bases["register"]
    [[0, 1], [0, 2]]
    """
    rows, k = fragment.shape
    wider = Space.of_shape((rows, k * steps))
    bases = {dim: [list(basis) for basis in rows] for dim, rows in fragment.bases.items()}
    bases["register"] += [[0, k << bit] for bit in range(steps.bit_length() - 1)]
    return LinearLayout.from_bases(bases, wider)


def without_copies(layout: LinearLayout) -> tuple[LinearLayout, tuple[int, ...]]:
    """Return a layout without the registers that only repeat others, and which register bits are left.

    >>> thin, kept = without_copies(LinearLayout.from_bases({"register": [[1], [0], [2]]}, (4,)))
    >>> thin.bases["register"], kept
    ([[1], [2]], (0, 2))
    """
    kept = tuple(bit for bit in range(layout.domain.bits_of("register")) if layout.columns[bit])
    bases = {dim: list(rows) for dim, rows in layout.bases.items()}
    bases["register"] = [bases["register"][bit] for bit in kept]
    return LinearLayout.from_bases(bases, layout.codomain), kept


def with_copies(thin: LinearLayout, like: LinearLayout) -> LinearLayout:
    """Return a layout with registers that repeat others where `like` has them: what without_copies took away."""
    rows = iter(thin.bases["register"])
    zero = [0] * len(thin.shape)
    registers = range(like.domain.bits_of("register"))
    bases = {dim: list(bases) for dim, bases in thin.bases.items()}
    bases["register"] = [next(rows) if like.columns[bit] else zero for bit in registers]
    return LinearLayout.from_bases(bases, thin.codomain)


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


def right_operand_by_columns(atom: Atom) -> Atom:
    """Return the atom that differs from the given one in that a thread holds neighbouring columns of B.

    Then B is fetched as it lies in memory, columns along the rows. Raises LayoutgenError when there is none.
    """
    for other in CATALOGUE:
        same = (other.a, other.accumulator, other.lane, other.shape) == (
            atom.a,
            atom.accumulator,
            atom.lane,
            atom.shape,
        )
        if same and other.b != atom.b and other.b.formula("n")[0][0] in other.b.register_names:
            return other
    raise LayoutgenError(
        f"design fast: no atom is {atom.alias} with neighbouring columns of B in registers; take --design simple"
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

    One, where a thread can hold those of one unit of rows; else as few as can hold those of two.

    >>> [usual_column_warps(value_dim) for value_dim in (96, 128, 192, 256, 512)]
    [1, 1, 1, 2, 4]
    """
    return 1 if value_dim <= WIDEST_ALONE else 1 << (-(-value_dim // WIDEST_PAIR) - 1).bit_length()


def usual_row_blocks(parts: tuple[int, ...], column_warps: int) -> int:
    """Return the units along the rows of a warp for requests that name none: two, or one if O takes too much."""
    return 2 if sum(parts) <= WIDEST_PAIR * column_warps else 1
