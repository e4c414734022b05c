"""Swizzled and padded buffers, and the search for one without bank conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutgen.algebra.banks import WORD_BYTES, Access, access, conflict, least_wavefronts, vector_elements, wavefronts
from layoutgen.algebra.layout import LinearLayout
from layoutgen.algebra.space import Space, log2
from layoutgen.errors import LayoutgenError


@dataclass(frozen=True)
class Swizzle:
    """Gluon's SwizzledSharedLayout(vec, per_phase, max_phase) of a row-major buffer.

    Within a row, vectors of `vec` elements trade places: vector c of row r lies at
    c xor ((r // per_phase) % max_phase). (1, 1, 1) moves nothing.

    >>> Swizzle(4, 1, 2).into((4, 8))((1, 0))
    (1, 4)
    """

    vec: int
    per_phase: int
    max_phase: int

    def __post_init__(self) -> None:
        for name in ("vec", "per_phase", "max_phase"):
            log2(getattr(self, name), f"swizzle: {name}")

    def into(self, shape: Sequence[int]) -> LinearLayout:
        """Return the map from an element of the tensor to its place in the buffer, both of this shape."""
        space = Space.of_shape(shape)
        columns = [1 << bit for bit in range(space.bits)]
        if len(shape) > 1:
            start = log2(shape[-1], "shape")
            for bit in range(log2(shape[-2], "shape")):
                columns[start + bit] |= self.vec * ((1 << bit) // self.per_phase % self.max_phase) % shape[-1]
        return LinearLayout(space, space, tuple(columns))

    def place(self, layout: LinearLayout) -> LinearLayout:
        """Return where each hardware index of `layout` finds its element in the buffer."""
        return self.into(layout.shape).compose(layout)

    def __str__(self) -> str:
        rule = f"vec={self.vec}, per_phase={self.per_phase}, max_phase={self.max_phase}"
        return f"gl.SwizzledSharedLayout({rule})"


@dataclass(frozen=True)
class Padding:
    """A row-major buffer with `pad` unused elements after every `interval` elements (Gluon's PaddedSharedLayout)."""

    interval: int
    pad: int

    def __post_init__(self) -> None:
        log2(self.interval, "padding: interval")
        if self.pad < 0:
            raise LayoutgenError(f"padding: {self.pad} elements; there can be none or more")

    def address(self, element: int) -> int:
        return element + element // self.interval * self.pad

    def access(self, layout: LinearLayout, element_bytes: int) -> Access:
        """Return one warp's cost through the padded buffer, by enumeration: padding is not linear over GF(2)."""
        vector = vector_elements(layout, element_bytes)
        while vector > 1 and (self.interval % vector or self.pad % vector):
            vector //= 2
        registers, lanes = layout.domain.bits_of("register"), layout.domain.bits_of("lane")
        table = layout.table()[: 1 << registers + lanes].reshape(1 << lanes, 1 << registers)
        starts = [r for r in range(1 << registers) if table[0, r] % vector == 0 and _first(layout, r)]
        total = minimum = 0
        for register in starts:
            places = [self.address(int(element)) * element_bytes for element in table[:, register]]
            total += wavefronts(places, vector * element_bytes)
            minimum += least_wavefronts(places, vector * element_bytes)
        return Access(len(starts), vector * element_bytes, total, minimum)

    def __str__(self) -> str:
        return f"padding of {self.pad} elements after every {self.interval}"


def _first(layout: LinearLayout, register: int) -> bool:
    """Whether no bit of a register is free: the others hold what this one holds."""
    return all(layout.columns[bit] for bit in range(register.bit_length()) if register >> bit & 1)


@dataclass(frozen=True)
class Choice:
    """The best buffer that was found, what each access costs through it, and why it is not better."""

    buffer: Swizzle | Padding
    accesses: tuple[Access, ...]
    reason: str

    @property
    def wavefronts(self) -> int:
        return sum(cost.wavefronts for cost in self.accesses)

    @property
    def conflict_free(self) -> bool:
        return all(cost.conflict_free for cost in self.accesses)

    def __str__(self) -> str:
        costs = " + ".join(f"{cost.wavefronts} ({cost.minimum} at least)" for cost in self.accesses)
        return f"{self.buffer}: {costs} wavefronts a warp; {self.reason}"


def swizzles(shape: Sequence[int], element_bytes: int) -> list[Swizzle]:
    """Return every swizzle that acts differently on a buffer of this shape, the plain one first."""
    if len(shape) < 2:
        return [Swizzle(1, 1, 1)]
    rows, columns = shape[-2:]
    found = [Swizzle(1, 1, 1)]
    for vec in _powers(min(columns // 2, 16 // element_bytes)):
        for per_phase in _powers(rows // 2):
            for max_phase in _powers(min(columns // vec, rows // per_phase)):
                if max_phase > 1:
                    found.append(Swizzle(vec, per_phase, max_phase))
    return found


def _powers(limit: int) -> list[int]:
    return [1 << bit for bit in range(limit.bit_length())] if limit > 0 else []


def best_swizzle(layouts: Sequence[LinearLayout], element_bytes: int) -> Choice:
    """Return the swizzle with the fewest wavefronts for all accesses together, once each; the plainest of equals.

    `layouts` are the registers that are stored and loaded, over one tensor shape.

    >>> rows = LinearLayout.from_bases({"lane": [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]}, (32, 32))
    >>> columns = LinearLayout.from_bases({"lane": [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]}, (32, 32))
    >>> print(best_swizzle([rows, columns], 4))
    gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=32): 1 (1 at least) + 1 (1 at least) wavefronts a warp; \
conflict-free
    """
    shape = _one_shape("best_swizzle", layouts)
    best: tuple[int, Swizzle, tuple[Access, ...]] | None = None
    for swizzle in swizzles(shape, element_bytes):
        costs = tuple(access(swizzle.place(layout), element_bytes) for layout in layouts)
        total = sum(cost.wavefronts for cost in costs)
        if best is None or total < best[0]:
            best = total, swizzle, costs
            if all(cost.conflict_free for cost in costs) and _widest(layouts, element_bytes, costs):
                break
    assert best is not None
    _, swizzle, costs = best
    if all(cost.conflict_free for cost in costs):
        return Choice(swizzle, costs, "conflict-free")
    worst = next(i for i, cost in enumerate(costs) if not cost.conflict_free)
    why = conflict(swizzle.place(layouts[worst]), element_bytes)
    return Choice(swizzle, costs, f"no swizzle of {list(shape)} is conflict-free: with the best, access {worst}: {why}")


def _widest(layouts: Sequence[LinearLayout], element_bytes: int, costs: Sequence[Access]) -> bool:
    """Whether no access had to be cut into narrower ones than the plain buffer allows."""
    pairs = zip(layouts, costs, strict=True)
    return all(vector_elements(layout, element_bytes) * element_bytes <= cost.width_bytes for layout, cost in pairs)


def best_padding(layouts: Sequence[LinearLayout], element_bytes: int) -> Choice:
    """Return the padding with the fewest wavefronts for all accesses together, the smallest of equals.

    Tried are up to 16 bytes, in steps that keep the vectors aligned, after every power-of-two run of elements.
    """
    shape = _one_shape("best_padding", layouts)
    size = Space.of_shape(shape).size
    step = max(vector_elements(layout, element_bytes) for layout in layouts)
    step = max(step, WORD_BYTES // element_bytes, 1)
    best: tuple[int, int, Padding, tuple[Access, ...]] | None = None
    for interval in [size, *(size >> bit for bit in range(1, size.bit_length()))]:
        if interval < step:
            break
        for pad in (0,) if interval == size else range(step, max(step, 16 // element_bytes) + 1, step):
            padding = Padding(interval, pad)
            costs = tuple(padding.access(layout, element_bytes) for layout in layouts)
            key = sum(cost.wavefronts for cost in costs), pad * (size // interval)
            if best is None or key < best[:2]:
                best = *key, padding, costs
    assert best is not None
    reason = "conflict-free"
    if not all(cost.conflict_free for cost in best[3]):
        reason = f"no padding of up to 16 bytes makes {list(shape)} conflict-free"
    return Choice(best[2], best[3], reason)


def _one_shape(operation: str, layouts: Sequence[LinearLayout]) -> tuple[int, ...]:
    shapes = {layout.shape for layout in layouts}
    if len(shapes) != 1:
        listed = ", ".join(str(list(shape)) for shape in sorted(shapes)) or "none"
        raise LayoutgenError(f"{operation}: the accesses have shapes {listed}; one buffer has one")
    return shapes.pop()
