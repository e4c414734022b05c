"""Notations: out and back again, and beside Triton's objects and CUTLASS's own TV layouts."""

import json

import pytest
from hypothesis import given

from layoutgen.algebra import Blocked, LinearLayout
from layoutgen.algebra.cute import from_cute, to_cute
from layoutgen.algebra.interchange import (
    as_dict,
    from_dict,
    from_gluon,
    from_gluon_object,
    from_ttg,
    read_layout,
    to_gluon,
    to_gluon_object,
    to_ttg,
    write_layout,
)
from layoutgen.atoms import atom
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates, distributed, layouts


@given(layouts(8))
def test_json_out_and_back(layout: LinearLayout) -> None:
    assert from_dict(json.loads(json.dumps(as_dict(layout)))) == layout
    assert read_layout(json.dumps(as_dict(layout))) == layout


@given(layouts(8))
def test_gluon_source_out_and_back(layout: LinearLayout) -> None:
    assert from_gluon(to_gluon(layout)) == layout
    assert read_layout(to_gluon(layout), layout.shape) == layout


@given(layouts(8))
def test_ttg_out_and_back(layout: LinearLayout) -> None:
    assert from_ttg(to_ttg(layout), layout.shape) == layout
    assert read_layout(to_ttg(layout).replace("#", ""), layout.shape) == layout


@given(distributed(8))
def test_what_is_written_is_read(layout: LinearLayout) -> None:
    for notation in ("json", "gluon", "ttg", "cute"):
        assert read_layout(write_layout(layout, notation), layout.shape) == layout


def test_there_is_no_other_notation() -> None:
    with pytest.raises(LayoutgenError, match="write_layout: 'latex' is no notation; these are json, gluon, ttg, cute"):
        write_layout(LinearLayout.from_bases({}, (1,)), "latex")


@given(distributed(8))
def test_gluon_s_object_is_its_source(layout: LinearLayout) -> None:
    from triton.experimental.gluon import language as gl

    value = to_gluon_object(layout, gl)
    assert eval(to_gluon(layout), {"gl": gl}) == value
    assert from_gluon_object(value) == layout


def test_gluon_s_other_objects() -> None:
    from triton.experimental.gluon import language as gl

    blocked = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    ours = Blocked((1, 8), (8, 4), (4, 1), (1, 0)).layout((64, 32))
    assert from_gluon_object(blocked, (64, 32)) == ours
    assert from_gluon_object(gl.SliceLayout(1, blocked), (64,)).bases["lane"] == ours.slice(1).bases["lane"]
    with pytest.raises(LayoutgenError, match="layout SwizzledSharedLayout: cannot be read"):
        from_gluon_object(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))


def test_the_texts_of_blocked_and_sliced_layouts() -> None:
    ours = Blocked((1, 8), (8, 4), (4, 1), (1, 0)).layout((64, 32))
    assert read_layout("gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])", (64, 32)) == ours
    named = "BlockedLayout(order=[1, 0], size_per_thread=[1, 8], threads_per_warp=[8, 4], warps_per_cta=[4, 1])"
    assert read_layout(named, (64, 32)) == ours
    ttg = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
    assert read_layout(ttg, (64, 32)) == ours
    assert read_layout(f"gl.SliceLayout(0, {to_gluon(ours)})") == ours.slice(0)
    assert read_layout(f"gl.SliceLayout(dim=0, parent={to_gluon(ours)})", (32,)) == ours.slice(0)


def test_without_a_shape_a_linear_attribute_has_the_smallest() -> None:
    assert from_ttg("#ttg.linear<{register = [[0, 1]], lane = [[4, 0]], warp = [], block = []}>").shape == (8, 2)


# ---- CuTe


def check_cute(text: str, layout: LinearLayout) -> None:
    """Post-condition: the sum of index times stride is the column-major number of the element."""
    shape = layout.shape
    sizes, strides = (eval(side) for side in text.split(":"))

    def flat(tree: object) -> list[int]:
        return [x for part in tree for x in flat(part)] if isinstance(tree, tuple) else [tree]  # type: ignore[list-item]

    for index in coordinates(layout.domain.shape):
        _, warp, lane, register = index
        thread = lane + (warp << layout.domain.bits_of("lane"))
        number = 0
        for value, mode, steps in zip((thread, register), sizes, strides, strict=True):
            for size, stride in zip(flat(mode), flat(steps), strict=True):
                number += value % size * stride
                value //= size
        element = layout(index)
        assert number == sum(c * prod(shape[:dim]) for dim, c in enumerate(element))


def prod(sizes: tuple[int, ...]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def as_tuples(text: str) -> str:
    """Turn CuTe's (8) into Python's (8,)."""
    return text.replace("(", "(").replace(")", ",)").replace(",,", ",")


@given(distributed(8))
def test_cute_adds_up_to_the_layout(layout: LinearLayout) -> None:
    text = to_cute(layout)
    check_cute(as_tuples(text), layout)
    assert from_cute(text, layout.shape) == layout
    assert read_layout(text, layout.shape) == layout


def test_the_tv_layouts_of_cutlass() -> None:
    """SM80_16x8_Row and the m16n8k16 A layout as cute/atom/mma_traits_sm80.hpp writes them."""
    accumulator = atom("m16n8k16").table("accumulator").reshape((16, 8))
    assert to_cute(accumulator) == "((4,8),(2,2)):((32,1),(16,8))"
    a = atom("m16n8k16").table("a").reshape((16, 16))
    assert to_cute(a) == "((4,8),(2,2,2)):((32,1),(16,8,128))"


def test_multi_bit_strides_that_do_not_carry() -> None:
    layout = LinearLayout.from_bases({"lane": [[3], [4]]}, (8,))
    assert to_cute(layout) == "((2,2),(1)):((3,4),(0))"
    assert from_cute("((2,2),(1)):((3,4),(0))", (8,)).columns == layout.columns


def test_a_swizzle_is_not_expressible_and_says_why() -> None:
    layout = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 1]]}, (2, 2))
    with pytest.raises(LayoutgenError, match="register0 and lane0 both move dim10: CuTe adds strides"):
        to_cute(layout)


def test_several_blocks_are_not_expressible() -> None:
    with pytest.raises(LayoutgenError, match="to_cute: the layout spans several blocks"):
        to_cute(LinearLayout.from_bases({"lane": [[1]], "block": [[2]]}, (4,)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("((3),(1)):((1),(0))", "size in .* = 3: must be a power of two"),
        ("((2),(2)):((1),(1))", "stride 1 carries into another one"),
        ("((2),(2)):((1),(64))", r"stride 64 leaves the tensor \[8, 4\]"),
        ("((2,2),(2)):((1),(2))", "has 2 sizes and 1 strides"),
        ("(2):(1)", "must have two modes, threads and values"),
        ("((2),(2):((1),(2))", r"a \) is missing"),
        ("((2),(2))):((1),(2))", r"\) after the end"),
        ("(,):(1)", "where a number or"),
        ("x", "is not shape:stride"),
    ],
)
def test_cute_texts_that_are_none(text: str, message: str) -> None:
    with pytest.raises(LayoutgenError, match=message):
        from_cute(text, (8, 4))


# ---- what must fail


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("", None, "cannot be read; it must be a JSON object of bases"),
        ("nonsense", None, "layout 'nonsense': cannot be read"),
        ("{", None, "not JSON"),
        ('{"thread": []}', None, "has 'thread'; known are register, lane, warp, block and shape"),
        ('{"lane": [1]}', None, "lane must be a list of bases, each a list of integers"),
        ('{"lane": [[true]]}', None, "lane must be a list of bases"),
        ('{"lane": [[1]], "shape": 2}', None, "shape 2 must be a list of integers"),
        ('{"lane": []}', None, "has no basis and no shape"),
        ('{"lane": [[1]], "shape": [2]}', (4,), r"its text says \[2\], the request \[4\]"),
        ('{"lane": [[1], [1, 2]], "shape": [2]}', None, "has 2 coordinates; shape"),
        ("#ttg.linear<{lane = [[1]]", None, r"must be #ttg.linear<\{...\}> or"),
        ("#ttg.mma<{}>", None, "must be #ttg.linear"),
        ("#ttg.linear<{lane = [[1}>", None, "its fields cannot be read"),
        ("#ttg.blocked<{order = [0]}>", (4,), "sizePerThread must be a list of integers"),
        ("gl.BlockedLayout([1], [32], [1], [0])", None, "a blocked layout needs the tensor's shape"),
        ("gl.BlockedLayout([1], [32], [1], [0])", (4, 4), r"blocked arguments of lengths \[1\] for shape \[4, 4\]"),
        ("gl.BlockedLayout([1], [32], [1], [1])", (4,), r"order \[1\] must name each of 1 dims once"),
        ("gl.BlockedLayout([1], [32], [1])", (4,), "needs exactly size_per_thread, threads_per_warp"),
        ("gl.BlockedLayout(x, [32], [1], [0])", (4,), "its arguments must be literals"),
        ("gl.BlockedLayout([1)", (4,), "not an expression"),
        ("gl.NVMMASharedLayout()", (4,), "cannot be read; it must be"),
        (
            "gl.SliceLayout(-1, gl.BlockedLayout([1], [32], [1], [0]))",
            (4,),
            "slice dim -1 must be an integer",
        ),
        ("((2),(2)):((1),(2))", None, "CuTe's notation needs the tensor's shape"),
    ],
)
def test_texts_that_are_no_layouts(text: str, shape: tuple[int, ...] | None, message: str) -> None:
    with pytest.raises(LayoutgenError, match=message):
        read_layout(text, shape)
