"""CuTe's `shape:stride` notation for layouts of threads and values, where it can express a layout.

A CuTe layout adds strides; a linear layout takes exclusive ors of bases. Both agree exactly when no two bases share a
coordinate bit, for then no sum carries. As in CuTe's TV layouts, an element is numbered column-major (its first
coordinate fastest); the first mode is the thread (lanes, then warps), the second the value (register).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from layoutgen.algebra.layout import LinearLayout, hardware_space
from layoutgen.algebra.space import LANE_BITS, Space, log2
from layoutgen.errors import LayoutgenError

Mode = tuple[int, int]
"""Size and stride."""


def to_cute(layout: LinearLayout) -> str:
    """Return the layout in CuTe's notation.

    Raises LayoutgenError naming two bases that share a bit, when the layout is a swizzle; then CuTe needs a Swizzle<>
    composed with a layout.

    >>> to_cute(LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0], [4, 0]]}, (8, 2)))
    '((8),(2)):((1),(8))'
    """
    owner: dict[int, str] = {}
    for position, column in enumerate(layout.columns):
        name = layout.domain.bit_name(position)
        for bit in range(column.bit_length()):
            if column >> bit & 1:
                if bit in owner:
                    raise LayoutgenError(
                        f"to_cute: {owner[bit]} and {name} both move {layout.codomain.bit_name(bit)}: CuTe adds "
                        "strides where a linear layout takes the exclusive or; it needs a Swizzle"
                    )
                owner[bit] = name
    if layout.domain.bits_of("block"):
        raise LayoutgenError("to_cute: the layout spans several blocks; CuTe's TV layouts have only threads and values")
    transposed = layout.permute(list(reversed(range(len(layout.shape)))))
    start, end = layout.domain.bits_of("register"), layout.domain.bits
    groups = transposed.columns[start:end], transposed.columns[:start]
    modes = [list(_modes(columns)) or [(1, 0)] for columns in groups]
    sizes, strides = (
        ",".join("(" + ",".join(str(mode[side]) for mode in group) + ")" for group in modes) for side in (0, 1)
    )
    return f"({sizes}):({strides})"


def _modes(columns: Sequence[int]) -> Iterator[Mode]:
    """Join bits whose strides double into one mode."""
    size, stride = 1, 0
    for column in columns:
        if size > 1 and column == stride * size:
            size *= 2
            continue
        if size > 1:
            yield size, stride
        size, stride = 2, column
    if size > 1:
        yield size, stride


def is_cute(text: str) -> bool:
    """Whether a text looks like `shape:stride`.

    >>> is_cute("((4,8),(2,2)):((16,1),(8,128))"), is_cute("4:1"), is_cute("a:b")
    (True, True, False)
    """
    return re.fullmatch(r"[\d(),_\s]+:[\d(),_\s]+", text.strip()) is not None


def from_cute(text: str, shape: Sequence[int]) -> LinearLayout:
    """Return the layout of a TV layout ((threads),(values)):((strides),(strides)) over a tensor of this shape.

    Threads are 32 lanes (or fewer), then warps. Raises LayoutgenError when a size is no power of two, when strides
    carry into each other, or when an element lies outside the tensor.

    >>> from_cute("((4,8),(2,2)):((32,1),(16,8))", (16, 8)).bases["lane"]
    [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]
    """
    if not is_cute(text):
        raise LayoutgenError(f"from_cute: {text!r} is not shape:stride")
    sizes, strides = (_tree(side, text) for side in text.split(":"))
    if not isinstance(sizes, list) or not isinstance(strides, list) or len(sizes) != 2 or len(strides) != 2:
        raise LayoutgenError(f"from_cute: {text!r} must have two modes, threads and values")
    groups = []
    space = Space.of_shape(tuple(reversed(shape)))
    taken = 0
    for size_group, stride_group in zip(sizes, strides, strict=True):
        flat_sizes, flat_strides = _flat(size_group), _flat(stride_group)
        if len(flat_sizes) != len(flat_strides):
            raise LayoutgenError(f"from_cute: {text!r} has {len(flat_sizes)} sizes and {len(flat_strides)} strides")
        columns = []
        for size, stride in zip(flat_sizes, flat_strides, strict=True):
            for bit in range(log2(size, f"from_cute: size in {text}")):
                column = stride << bit
                if column & taken:
                    raise LayoutgenError(
                        f"from_cute: {text!r}: stride {column} carries into another one: not linear over bits"
                    )
                if column >= space.size:
                    raise LayoutgenError(f"from_cute: {text!r}: stride {column} leaves the tensor {list(shape)}")
                taken |= column
                columns.append(column)
        groups.append(columns)
    threads, values = groups
    lanes = min(len(threads), LANE_BITS)
    domain = hardware_space({"register": len(values), "lane": lanes, "warp": len(threads) - lanes})
    layout = LinearLayout(domain, space, (*values, *threads))
    return layout.permute(list(reversed(range(len(shape)))))


def _tree(text: str, whole: str) -> object:
    """Parse nested parentheses of integers."""
    tokens = re.findall(r"\d+|[(),]", text)
    position = 0

    def parse() -> object:
        nonlocal position
        token = tokens[position] if position < len(tokens) else ""
        position += 1
        if token.isdigit():
            return int(token)
        if token != "(":
            raise LayoutgenError(f"from_cute: {whole!r}: {token or 'the end'} where a number or ( should be")
        items = [parse()]
        while position < len(tokens) and tokens[position] == ",":
            position += 1
            items.append(parse())
        if position >= len(tokens) or tokens[position] != ")":
            raise LayoutgenError(f"from_cute: {whole!r}: a ) is missing")
        position += 1
        return items

    result = parse()
    if position != len(tokens):
        raise LayoutgenError(f"from_cute: {whole!r}: {tokens[position]} after the end")
    return result


def _flat(tree: object) -> list[int]:
    if isinstance(tree, list):
        return [item for part in tree for item in _flat(part)]
    return [tree] if isinstance(tree, int) else []
