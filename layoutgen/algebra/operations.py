"""The rest of the algebra: pseudo-inverse, products and quotients, concatenation, sublayouts, bits renamed, growth.

Names and conventions are those of Triton's C++ `LinearLayout` where both exist; bits of a product are counted from
its left factor up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from layoutgen.algebra.layout import LinearLayout
from layoutgen.algebra.space import Space, log2
from layoutgen.errors import LayoutgenError


def pseudo_invert(layout: LinearLayout) -> LinearLayout:
    """Return the right inverse of a surjective layout that uses the fewest, fastest bits: layout(result(x)) = x.

    These are the first independent ones, so that an element's owner has low registers first, then low lanes.

    >>> replicated = LinearLayout.from_bases({"register": [[0]], "lane": [[1], [1]]}, (2,))
    >>> pseudo_invert(replicated)((1,))
    (0, 0, 1, 0)
    """
    if not layout.is_surjective:
        raise LayoutgenError(
            f"pseudo_invert: rank {layout.rank} of {layout.codomain.bits} bits of {layout.codomain}; "
            "only a surjective layout has a right inverse"
        )
    return solve(layout, LinearLayout.identity(layout.codomain))


def solve(outer: LinearLayout, target: LinearLayout) -> LinearLayout:
    """Return the map X with outer after X = target, from the fewest, fastest bits of outer's domain.

    This is Triton's `target.invert_and_compose(outer)`. Raises LayoutgenError naming the bit of target's domain
    whose image outer does not reach.
    """
    if outer.codomain != target.codomain:
        raise LayoutgenError(f"solve: the maps end in {outer.codomain} and {target.codomain}; they must be the same")
    columns = []
    for position, column in enumerate(target.columns):
        found = outer.preimage(column)
        if found is None:
            raise LayoutgenError(
                f"solve: {target.domain.bit_name(position)} goes to {target.codomain.unpack(column)}, "
                "which the outer map does not reach"
            )
        columns.append(found)
    return LinearLayout(target.domain, outer.domain, tuple(columns))


# ---- products


def _joined(first: Space, second: Space) -> Space:
    """Return the dims of both spaces; a dim of both gets the bits of both.

    The order is that of the space that has all dims; failing that, the second's own dims come in front.
    """
    bits = dict(first.dims)
    for name, more in second.dims:
        bits[name] = bits.get(name, 0) + more
    if set(first.names) <= set(second.names):
        return Space(tuple((name, bits[name]) for name in second.names))
    names = (*(name for name in second.names if name not in first.names), *first.names)
    return Space(tuple((name, bits[name]) for name in names))


def _embed(column: int, source: Space, target: Space, above: Space | None = None) -> int:
    """Move a packed element into a larger space, dim by dim, above the bits that each dim has in `above`."""
    result = 0
    for name, bits in source.dims:
        low = above.bits_of(name) if above is not None and name in above.names else 0
        result |= (column >> source.offsets[name] & (1 << bits) - 1) << target.offsets[name] + low
    return result


def product(first: LinearLayout, second: LinearLayout) -> LinearLayout:
    """Return the direct sum: `first` tiled by `second`, whose bits come above those of `first` in every dim.

    >>> lanes = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    >>> registers = LinearLayout.from_bases({"register": [[1]]}, (2,))
    >>> product(lanes, registers).bases["register"]
    [[4]]
    """
    domain = _joined(first.domain, second.domain)
    codomain = _joined(first.codomain, second.codomain)
    columns = [0] * domain.bits
    for factor, below in ((first, None), (second, first)):
        for position, column in enumerate(factor.columns):
            at = _embed(1 << position, factor.domain, domain, below.domain if below else None)
            columns[at.bit_length() - 1] = _embed(column, factor.codomain, codomain, below.codomain if below else None)
    return LinearLayout(domain, codomain, tuple(columns))


def _part(layout: LinearLayout, factor: LinearLayout, high: bool) -> LinearLayout | None:
    """Return the bits of `layout` beside those of `factor` (the low or the high ones), if the product is clean."""
    what = "divide_right" if high else "divide_left"
    for space, other, kind in (
        (layout.domain, factor.domain, "input"),
        (layout.codomain, factor.codomain, "output"),
    ):
        for name, bits in other.dims:
            if name not in space.names or space.bits_of(name) < bits:
                raise LayoutgenError(
                    f"{what}: {kind} dim {name} has {1 << bits} elements in the divisor and "
                    f"{1 << space.bits_of(name) if name in space.names else 0} in the dividend"
                )

    def rest(space: Space, other: Space) -> Space:
        taken = dict(other.dims)
        return Space(tuple((name, bits - taken.get(name, 0)) for name, bits in space.dims))

    domain, codomain = rest(layout.domain, factor.domain), rest(layout.codomain, factor.codomain)
    columns = []
    for position in range(domain.bits):
        at = _embed(1 << position, domain, layout.domain, None if high else factor.domain).bit_length() - 1
        column = layout.columns[at]
        kept = 0
        for name, bits in codomain.dims:
            low = factor.codomain.bits_of(name) if not high and name in factor.codomain.names else 0
            kept |= (column >> layout.codomain.offsets[name] + low & (1 << bits) - 1) << codomain.offsets[name]
        columns.append(kept)
    quotient = LinearLayout(domain, codomain, tuple(columns))
    whole = product(quotient, factor) if high else product(factor, quotient)
    return quotient if _same(whole, layout) else None


def _same(first: LinearLayout, second: LinearLayout) -> bool:
    """Compare two layouts whose dims may come in another order."""
    if dict(first.domain.dims) != dict(second.domain.dims) or dict(first.codomain.dims) != dict(second.codomain.dims):
        return False
    return sublayout(first, second.domain.names, second.codomain.names) == second


def divide_left(layout: LinearLayout, factor: LinearLayout) -> LinearLayout | None:
    """Return X with product(factor, X) = layout, or None when the factor's bits are mixed with others.

    >>> lanes = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    >>> registers = LinearLayout.from_bases({"register": [[1]]}, (2,))
    >>> divide_left(product(lanes, registers), lanes) == registers
    True
    """
    return _part(layout, factor, high=False)


def divide_right(layout: LinearLayout, factor: LinearLayout) -> LinearLayout | None:
    """Return X with product(X, factor) = layout, or None when the factor's bits are mixed with others."""
    return _part(layout, factor, high=True)


# ---- parts and wholes


def sublayout(layout: LinearLayout, inputs: Iterable[str], outputs: Iterable[str]) -> LinearLayout:
    """Return the map from some input dims to some output dims: the others are held at 0, and dropped.

    The result's dims come in the order given.

    >>> layout = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[2, 0], [1, 1]]}, (4, 2))
    >>> sublayout(layout, ["lane"], ["dim1"]).columns
    (0, 1)
    """
    domain = Space(tuple((name, layout.domain.bits_of(name)) for name in inputs))
    codomain = Space(tuple((name, layout.codomain.bits_of(name)) for name in outputs))
    columns = []
    for name, bits in reversed(domain.dims):
        start = layout.domain.offsets[name]
        for column in layout.columns[start : start + bits]:
            kept = 0
            for out, width in codomain.dims:
                kept |= (column >> layout.codomain.offsets[out] & (1 << width) - 1) << codomain.offsets[out]
            columns.append(kept)
    return LinearLayout(domain, codomain, tuple(columns))


def concatenate_inputs(slow: LinearLayout, fast: LinearLayout) -> LinearLayout:
    """Return the map on the input dims of both, into one codomain: slow(x) xor fast(y)."""
    if slow.codomain != fast.codomain:
        raise LayoutgenError(f"concatenate_inputs: {slow.codomain} and {fast.codomain} must be the same")
    return LinearLayout(Space(slow.domain.dims + fast.domain.dims), slow.codomain, fast.columns + slow.columns)


def concatenate_outputs(slow: LinearLayout, fast: LinearLayout) -> LinearLayout:
    """Return the map to the output dims of both, from one domain: x -> (slow(x), fast(x))."""
    if slow.domain != fast.domain:
        raise LayoutgenError(f"concatenate_outputs: {slow.domain} and {fast.domain} must be the same")
    codomain = Space(slow.codomain.dims + fast.codomain.dims)
    columns = tuple(a << fast.codomain.bits | b for a, b in zip(slow.columns, fast.columns, strict=True))
    return LinearLayout(slow.domain, codomain, columns)


# ---- bits of one dim


def rename_bits(layout: LinearLayout, dim: str, order: tuple[int, ...]) -> LinearLayout:
    """Return the layout with bit i of one coordinate called bit `order[i]`.

    >>> layout = LinearLayout.from_bases({"register": [[1], [2], [4]]}, (8,))
    >>> rename_bits(layout, "dim0", (1, 2, 0)).bases["register"]
    [[2], [4], [1]]
    """
    start = layout.codomain.offsets[dim]
    if sorted(order) != list(range(layout.codomain.bits_of(dim))):
        raise LayoutgenError(f"rename_bits: order {list(order)} must name each bit of {dim} once")
    mask = (1 << len(order)) - 1
    columns = []
    for column in layout.columns:
        bits = column >> start & mask
        renamed = sum(1 << new for bit, new in enumerate(order) if bits >> bit & 1)
        columns.append(column & ~(mask << start) | renamed << start)
    return LinearLayout(layout.domain, layout.codomain, tuple(columns))


# ---- growth


def replicate(layout: LinearLayout, name: str, bits: int = 1) -> LinearLayout:
    """Add zero bases above those of a hardware dim: every element gets 2^bits times as many owners."""
    if bits < 0:
        raise LayoutgenError(f"replicate: {bits} bits of {name}; a layout can only gain some")
    free = LinearLayout(Space(((name, bits),)), Space(()), (0,) * bits)
    layout.domain.bits_of(name)
    return product(layout, free)


def without_copies(layout: LinearLayout) -> LinearLayout:
    """Return the layout without the registers whose basis is zero, which only repeat what others hold.

    >>> without_copies(LinearLayout.from_bases({"register": [[1], [0], [2]]}, (4,))).bases["register"]
    [[1], [2]]
    """
    kept = [basis for basis in layout.bases["register"] if any(basis)]
    return LinearLayout.from_bases({**layout.bases, "register": kept}, layout.codomain)


def with_copies(thin: LinearLayout, like: LinearLayout) -> LinearLayout:
    """Return a layout with registers that repeat others where `like` has them: what `without_copies` took away.

    >>> layout = LinearLayout.from_bases({"register": [[1], [0], [2]]}, (4,))
    >>> with_copies(without_copies(layout), layout) == layout
    True
    """
    left = iter(thin.bases["register"])
    zero = [0] * len(thin.shape)
    registers = [next(left) if any(basis) else zero for basis in like.bases["register"]]
    return LinearLayout.from_bases({**thin.bases, "register": registers}, thin.codomain)


def expand_dims(layout: LinearLayout, dim: int) -> LinearLayout:
    """Insert a dim of size 1 at position `dim`, as `gl.expand_dims` does."""
    if not 0 <= dim <= len(layout.shape):
        raise LayoutgenError(f"expand_dims: position {dim} of {list(layout.shape)}: must lie in 0..{len(layout.shape)}")
    return layout.reshape((*layout.shape[:dim], 1, *layout.shape[dim:]))


def expand(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Let registers repeat the layout over a larger shape, last dim first, as Triton does with a larger tensor.

    >>> row = LinearLayout.from_bases({"lane": [[0, 1], [0, 2]]}, (1, 4))
    >>> expand(row, (2, 8)).bases["register"]
    [[0, 4], [1, 0]]
    """
    if len(shape) != len(layout.shape) or any(new < old for new, old in zip(shape, layout.shape, strict=True)):
        raise LayoutgenError(f"expand: {list(layout.shape)} to {list(shape)}: no dim may shrink and the rank must stay")
    result = layout
    for dim, (name, bits) in reversed(list(enumerate(layout.codomain.dims))):
        more = log2(shape[dim], f"expand: dim{dim}") - bits
        step = Space((("register", more),)), Space(((name, more),))
        result = product(result, LinearLayout(*step, tuple(1 << bit for bit in range(more))))
    return result


def broadcast(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Grow dims of size 1 alone, as numpy's broadcasting does; registers repeat the layout along them."""
    if len(shape) != len(layout.shape) or any(
        old not in (1, new) for new, old in zip(shape, layout.shape, strict=True)
    ):
        raise LayoutgenError(f"broadcast: {list(layout.shape)} to {list(shape)}: only dims of size 1 may grow")
    return expand(layout, shape)
