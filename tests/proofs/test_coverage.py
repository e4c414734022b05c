"""Claim 6: coverage for all lengths, against enumeration of many."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.proofs.coverage import Axis, Between, Footprint, Step, Tiles, axis_fault, covers, union_fault
from tests.proofs.helpers import proved, refuted

ROWS = Axis("t", 0, (Step(1, 64), Step(64, Tiles("t", 64))), masked=True)
HEADS = Axis("h", 0, (Step(1, Tiles("h", 1)),), masked=False)


def exact(axis: Axis, length: int) -> bool:
    assert isinstance(axis.length, str)
    return axis.touched({axis.length: length, "other": 3}) == set(range(length))


small = st.integers(1, 6)


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    """Near-right axes: every constant may be off."""
    size = draw(small)
    inner = draw(st.sampled_from([size, draw(small)]))
    steps = [Step(draw(st.sampled_from([1, 1, 1, 2])), inner)]
    if draw(st.booleans()):
        steps = [Step(1, draw(small)), Step(draw(small), draw(small))]
    if draw(st.integers(0, 9)):
        name = draw(st.sampled_from(["t", "t", "t", "other"]))
        steps.append(Step(draw(st.sampled_from([size, draw(small)])), Tiles(name, size)))
    return Axis("t", draw(st.sampled_from([0, 0, 0, 1])), tuple(steps), draw(st.booleans()))


@settings(max_examples=400)
@given(axes())
def test_what_is_proved_holds_at_every_length(axis: Axis) -> None:
    lengths = [length for length in range(60) if not exact(axis, length)]
    fault = axis_fault(axis)
    # Whether a fault is one is the next test's matter: it may show at greater lengths alone.
    assert fault is not None or not lengths, lengths[:5]


@settings(max_examples=200)
@given(axes())
def test_the_witness_is_true(axis: Axis) -> None:
    fault = axis_fault(axis)
    if fault is None or not fault.witness.startswith("with t = "):
        return
    words = fault.witness.split()
    length, coordinate = int(words[3].rstrip(",")), int(words[4])
    touched = axis.touched({"t": length, "other": 3})
    if fault.witness.endswith("missed"):
        assert coordinate < length
        assert coordinate not in touched
    else:
        assert coordinate >= length
        assert coordinate in touched


def test_a_tile_of_rows_is_proved() -> None:
    verdict = proved(covers("q", ("head", "row"), [Footprint("q", "load", 7, (HEADS, ROWS))]))
    assert (verdict.method, verdict.obligation.claim) == ("symbolic", 6)
    assert verdict.facts == ("head: each of h once", "row: ceil(t / 64) tiles 64 apart, each 64 long, all below t")


@pytest.mark.parametrize(
    ("axis", "basis", "witness"),
    [
        (Axis("t", 0, ROWS.steps, False), "no mask", "with t = 1, 1 lies outside and is touched"),
        (Axis("t", 8, ROWS.steps, True), "start 8", "with t = 1, 0 is missed"),
        (Axis("t", 0, (Step(1, 64),), True), "no tiles are counted", "with t = 65, 64 is missed"),
        (
            Axis("t", 0, (Step(1, 32), Step(64, Tiles("t", 64))), True),
            "tiles 64 apart, 32 long",
            "with t = 33, 32 is missed",
        ),
        (
            Axis("t", 0, (Step(1, 64), Step(32, Tiles("t", 64))), True),
            "ceil(t / 64) tiles, 32 apart",
            "with t = 128, 96 is missed",
        ),
        (Axis("t", 0, (Step(2, 64), Step(128, Tiles("t", 128))), True), "step 2", "1 lies in a gap of the tile"),
        (
            Axis("t", 0, (Step(1, 64), Step(64, Tiles("n", 64))), True),
            "counts ceil(n / 64)",
            "the number of tiles does not follow from t",
        ),
        (Axis("t", 0, (Step(2, Tiles("t", 1)),), False), "tiles 2 apart, 1 long", "with t = 2, 1 is missed"),
    ],
)
def test_each_fault_is_named(axis: Axis, basis: str, witness: str) -> None:
    verdict = refuted(covers("q", ("row",), [Footprint("q", "load", 7, (axis,))]))
    assert verdict.basis == f"row (line 7), {basis}"
    assert verdict.witness == witness


def part(start: int, count: int, masked: bool = False) -> Footprint:
    return Footprint("q", "load", start, (ROWS, Axis(80, start, (Step(1, count),), masked)))


def test_parts_of_a_known_dim_are_added_up() -> None:
    verdict = proved(covers("q", ("row", "column"), [part(0, 64), part(64, 16)]))
    assert verdict.facts[1] == "column: 0 .. 79 exactly"
    proved(covers("q", ("row", "column"), [part(0, 64), part(64, 32, masked=True)]))


@pytest.mark.parametrize(
    ("parts", "basis", "witness"),
    [
        ([part(0, 64)], "column (line 0), all accesses together", "64 is missed"),
        ([part(0, 64), part(72, 8)], "column (line 72), all accesses together", "64 is missed"),
        ([part(0, 64), part(64, 32)], "column (line 64), no mask", "80 lies outside and is touched"),
    ],
)
def test_parts_that_do_not_add_up(parts: list[Footprint], basis: str, witness: str) -> None:
    verdict = refuted(covers("q", ("row", "column"), parts))
    assert (verdict.basis, verdict.witness) == (basis, witness)


def test_tiles_along_a_known_dim_are_refuted() -> None:
    axis = Axis(64, 0, (Step(1, 32), Step(32, Tiles("t", 32))), True)
    assert refuted(covers("q", ("column",), [Footprint("q", "load", 1, (axis,))])).basis == "column (line 1), tiles"


# ---- several accesses, one part each


def key(
    start: int, tiles: Tiles | None, masked: bool, base: tuple[tuple[int, Tiles], ...] = (), count: int = 32
) -> Axis:
    steps = [Step(1, count)] + ([Step(tiles.size, tiles)] if tiles else [])
    return Axis("t", start, tuple(steps), masked, base)


WHOLE = Tiles("t", 32, whole=True)
FEWER = Tiles("t", 32, offset=32, whole=True)


def later(high: Tiles, masked: bool) -> Axis:
    """Tiles from the number FEWER on, one ahead."""
    return Axis("t", 32, (Step(1, 32), Step(32, Between(FEWER, high))), masked, ((32, FEWER),))


PARTS = {
    "one ahead: whole tiles, then a second loop over the rest": (
        [key(0, None, True), key(32, FEWER, False), later(Tiles("t", 32), True)],
        True,
    ),
    "a second loop over whole tiles alone": (
        [key(0, None, True), key(32, FEWER, False), later(Tiles("t", 32, offset=32, whole=True), True)],
        False,
    ),
    "a second loop without masks": (
        [key(0, None, True), key(32, FEWER, False), later(Tiles("t", 32), False)],
        False,
    ),
    "whole tiles, then a masked remainder": ([key(0, WHOLE, False), key(0, None, True, ((32, WHOLE),))], True),
    "the first tile ahead, the others in the loop": (
        [key(0, None, True), key(32, Tiles("t", 32, offset=32), True)],
        True,
    ),
    "the next tile in each iteration, one too many masked away": (
        [key(0, None, True), key(32, Tiles("t", 32), True)],
        True,
    ),
    "two tiles an iteration": (
        [key(0, Tiles("t", 64), True), key(32, Tiles("t", 64), True)],
        True,
    ),
    "a remainder without a mask": ([key(0, WHOLE, False), key(0, None, False, ((32, WHOLE),))], False),
    "no remainder": ([key(0, WHOLE, False), key(0, None, True)], False),
    "a gap between the first tile and the others": ([key(0, None, True), key(64, Tiles("t", 32), True)], False),
    "a last tile that nobody loads": (
        [key(0, None, True), key(32, Tiles("t", 32, offset=32, whole=True), True)],
        False,
    ),
    "the next tile unmasked": ([key(0, None, True), key(32, Tiles("t", 32, offset=32), False)], False),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_dim_of_any_length(name: str) -> None:
    parts, whole = PARTS[name]
    for length in range(300):
        touched = set().union(*(axis.touched({"t": length}) for axis in parts))
        if touched != set(range(length)):
            assert not whole
            break
    else:
        assert whole
    verdict = covers("k", ("key",), [Footprint("k", "load", line, (axis,)) for line, axis in enumerate(parts)])
    assert verdict.holds == whole
    if whole:
        assert "together, by induction over the length in steps of" in proved(verdict).facts[0]


def test_parts_of_two_dims_are_matched() -> None:
    """A remainder that is loaded for half of the columns alone leaves a hole."""

    def columns(start: int, count: int) -> Axis:
        return Axis(96, start, (Step(1, count),), False)

    whole = [(key(0, WHOLE, False), columns(0, 64)), (key(0, WHOLE, False), columns(64, 32))]
    rest = [(key(0, None, True, ((32, WHOLE),)), columns(0, 64)), (key(0, None, True, ((32, WHOLE),)), columns(64, 32))]
    names = ("key", "column")
    proved(covers("k", names, [Footprint("k", "load", 1, axes) for axes in whole + rest]))
    verdict = refuted(covers("k", names, [Footprint("k", "load", 1, axes) for axes in whole + rest[:1]]))
    assert verdict.witness == "with t = 1, 0 is missed"


@st.composite
def several(draw: st.DrawFn) -> list[Axis]:
    size = draw(st.sampled_from([2, 3, 4]))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        tiles = Tiles("t", size, draw(st.sampled_from([0, 0, size, 1])), draw(st.booleans()))
        ranges = draw(st.booleans())
        base = () if ranges or draw(st.booleans()) else ((size, Tiles("t", size, 0, True)),)
        start = draw(st.sampled_from([0, 0, size, 1]))
        parts.append(key(start, tiles if ranges else None, draw(st.integers(0, 3)) > 0, base, draw(small)))
    return parts


@settings(max_examples=300)
@given(several())
def test_the_induction_decides(parts: list[Axis]) -> None:
    fault, _ = union_fault(parts)
    whole = all(
        set().union(*(axis.touched({"t": length}) for axis in parts)) == set(range(length)) for length in range(90)
    )
    assert (fault is None) == whole, fault
