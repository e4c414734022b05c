"""The ladder of conversions: brute force over owners, known cases, and what Triton really lowers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout, Space, hardware_space
from layoutgen.algebra.conversion import Conversion, Kind, classify
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import bijections_between, coordinates
from tests.triton_oracle import lowered, trivially_converts


def brute_force_kind(source: LinearLayout, target: LinearLayout) -> Kind:
    """Find, index by index, how near the nearest owner of what it wants is."""
    owners: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for index in coordinates(source.domain.shape):
        owners.setdefault(source(index), []).append(index)
    farthest = Kind.REGISTERS
    for block, warp, lane, register in coordinates(target.domain.shape):
        candidates = owners[target((block, warp, lane, register))]
        if any(owner[:3] == (block, warp, lane) for owner in candidates):
            nearest = Kind.REGISTERS
        elif any(owner[:2] == (block, warp) for owner in candidates):
            nearest = Kind.WARP
        elif any(owner[0] == block for owner in candidates):
            nearest = Kind.SHARED
        else:
            nearest = Kind.BLOCKS
        farthest = max(farthest, nearest)
    return farthest


def brute_force_kept(source: LinearLayout, target: LinearLayout) -> float:
    """Count the distinct values of each thread that it still wants."""
    parts = []
    for place in coordinates(source.domain.shape[:3]):
        registers = (range(layout.domain.shape[3]) for layout in (source, target))
        have, want = (
            {layout((*place, register)) for register in count}
            for layout, count in zip((source, target), registers, strict=True)
        )
        parts.append(len(have & want) / len(have))
    return float(np.mean(parts))


def check_conversion(conversion: Conversion) -> None:
    """Post-condition: every owner holds what is wanted, on the rung that is claimed; no lower rung would do."""
    source, target, owners = conversion.source, conversion.target, conversion.owners
    assert source.compose(owners) == target
    expected = brute_force_kind(source, target)
    assert max(conversion.kind, Kind.REGISTERS) == expected
    for index in coordinates(target.domain.shape):
        block, warp, lane, _ = owners(index)
        if conversion.kind < Kind.BLOCKS:
            assert block == index[0]
        if conversion.kind < Kind.SHARED:
            assert warp == index[1]
        if conversion.kind < Kind.WARP:
            assert lane == index[2]
    assert conversion.kept == brute_force_kept(source, target)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[LinearLayout, LinearLayout]:
    """Two layouts of one tensor; the target is near the source, so that every rung comes up."""
    codomain = Space.of_shape((4, 16))
    threads = {"lane": 3, "warp": 1, "block": draw(st.integers(0, 1))}
    sizes = []
    for _ in range(2):
        registers = codomain.bits - sum(threads.values()) + draw(st.integers(0, 2))
        sizes.append(hardware_space({"register": registers, **threads}))
    columns = list(draw(bijections_between(codomain, codomain)).columns)
    pad = st.lists(st.integers(0, codomain.size - 1) | st.just(0), min_size=4, max_size=4)
    source = columns + draw(pad)[: sizes[0].bits - len(columns)]
    target = columns + draw(pad)[: sizes[1].bits - len(columns)]
    # Elementary steps within the low bits alone leave warps and blocks where they are.
    reach = draw(st.sampled_from([2, 5, 6, 8]))
    for _ in range(draw(st.integers(0, 4))):
        a, b = draw(st.integers(0, reach - 1)), draw(st.integers(0, reach - 1))
        a, b = a % len(target), b % len(target)
        if draw(st.booleans()):
            target[a], target[b] = target[b], target[a]
        elif a != b:
            target[a] ^= target[b]
    return (
        LinearLayout(sizes[0], codomain, tuple(source[: sizes[0].bits])),
        LinearLayout(sizes[1], codomain, tuple(target[: sizes[1].bits])),
    )


@settings(max_examples=300)
@given(pairs())
def test_finds_the_nearest_owners(pair: tuple[LinearLayout, LinearLayout]) -> None:
    check_conversion(classify(*pair))


def layout_of(register: list[int], lane: list[int], warp: list[int] = ()) -> LinearLayout:  # type: ignore[assignment]
    """A layout of 1024 elements from one number per basis."""
    bases = {"register": [[r] for r in register], "lane": [[x] for x in lane], "warp": [[w] for w in warp]}
    return LinearLayout.from_bases(bases, (1024,))


LANES = [32, 64, 128, 256, 512]
BASE = layout_of([1, 2, 4, 8, 16], LANES)


KNOWN = {
    "identical": (BASE, Kind.IDENTICAL, 0),
    "more replicas": (layout_of([0, 1, 2, 4, 8, 16], LANES), Kind.REPLICAS, 0),
    "registers": (layout_of([2, 1, 4, 8, 16], LANES), Kind.REGISTERS, 0),
    "one lane bit with one register bit": (layout_of([32, 2, 4, 8, 16], [1, *LANES[1:]]), Kind.WARP, 16),
    "two lane bits with two register bits": (layout_of([32, 64, 4, 8, 16], [1, 2, *LANES[2:]]), Kind.WARP, 24),
    "lanes alone": (layout_of([1, 2, 4, 8, 16], [64, 32, *LANES[2:]]), Kind.WARP, 32),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_conversions(name: str) -> None:
    target, kind, shuffles = KNOWN[name]
    conversion = classify(BASE, target)
    assert conversion.kind is kind
    assert conversion.shuffles(4) == shuffles


def test_swaps_are_named() -> None:
    conversion = classify(BASE, KNOWN["two lane bits with two register bits"][0])
    assert conversion.swaps == (("lane0", "register0"), ("lane1", "register1"))
    assert conversion.kept == 0.25


def test_narrow_values_travel_in_pairs_while_their_registers_stay_neighbours() -> None:
    apart = classify(BASE, KNOWN["one lane bit with one register bit"][0])
    assert apart.shuffles(2) == 16  # register bit 0 itself is exchanged: no pair stays together
    together = classify(BASE, layout_of([1, 32, 4, 8, 16], [2, *LANES[1:]]))
    assert together.shuffles(2) == 8
    assert together.shuffles(1) == 8
    assert classify(BASE, layout_of([1, 2, 32, 8, 16], [4, *LANES[1:]])).shuffles(1) == 4


def test_the_cheapest_replica_is_taken() -> None:
    """The source holds each element in two warps; the lowest owner would be in the wrong one."""
    source = layout_of([1, 2, 4, 8, 16], LANES, [0])
    target = layout_of([1, 2, 4, 8, 16], [64, 32, *LANES[2:]], [0])
    assert classify(source, target).kind is Kind.WARP
    # Lane bit 0 free in the source: the target may have register 1 there, and needs no shuffle.
    source = layout_of([1, 2, 4, 8, 16, 32], [0, *LANES[1:]])
    conversion = classify(source, BASE)
    assert conversion.kind is Kind.REGISTERS
    assert conversion.selects
    assert not conversion.is_trivial


def test_a_replica_of_the_source_shortens_the_way() -> None:
    # Lane bit 1 is free in the source. Register 4 of the target is spread over lane bit 0 there.
    source = layout_of([1, 2, 4, 8, 16, 64], [32, 0, *LANES[2:]])
    target = layout_of([1, 2, 4, 8, 32, 64], [16, 0, *LANES[2:]])
    conversion = classify(source, target)
    check_conversion(conversion)
    assert conversion.shuffles(4) == 32


def test_warps_need_shared_memory() -> None:
    source = layout_of([1, 2, 4], LANES_OF_WARPS, [256, 512])
    target = layout_of([1, 2, 4], LANES_OF_WARPS, [512, 256])
    conversion = classify(source, target)
    assert conversion.kind is Kind.SHARED
    assert conversion.bytes(4) == 4096
    buffer = conversion.buffer(4)
    assert buffer is not None
    assert buffer.conflict_free
    assert conversion.witness == "warp 1 wants (512,), which is in warp 2, register 0"


LANES_OF_WARPS = [8, 16, 32, 64, 128]


def test_blocks() -> None:
    bases = {"lane": [[1], [2]], "block": [[4], [8]]}
    swapped = {"lane": [[1], [2]], "block": [[8], [4]]}
    conversion = classify(*(LinearLayout.from_bases(b, (16,)) for b in (bases, swapped)))
    assert conversion.kind is Kind.BLOCKS
    assert conversion.witness == "block 1 wants (8,), which is in block 2, register 0"


def test_the_known_witness() -> None:
    conversion = classify(BASE, KNOWN["one lane bit with one register bit"][0])
    assert conversion.witness == "register 1 wants (32,), which is in lane 1, register 0"
    assert str(conversion) == "exchange within a warp: " + conversion.witness
    assert conversion.as_dict(4)["shuffles"] == 16
    assert "16 shuffles a warp, elements of 4 bytes" in conversion.explain(4)


# ---- Triton's own lowering


@pytest.mark.parametrize("name", KNOWN)
def test_triton_lowers_the_class_that_is_named(name: str) -> None:
    target, kind, shuffles = KNOWN[name]
    counts = lowered(BASE, target)
    if len(classify(BASE, target).swaps) > 1:
        # Triton exchanges one pair of bits by shuffles, and takes shared memory for more.
        assert counts["st.shared"] > 0
        return
    assert counts["st.shared"] == counts["ld.shared"] == 0
    assert counts["shfl.sync"] == shuffles
    assert trivially_converts(BASE, target) == (kind < Kind.WARP)


def test_triton_goes_through_shared_memory_between_warps() -> None:
    source = layout_of([1, 2, 4], LANES_OF_WARPS, [256, 512])
    target = layout_of([1, 2, 4], LANES_OF_WARPS, [512, 256])
    counts = lowered(source, target)
    assert counts["st.shared"] > 0
    assert counts["ld.shared"] > 0


def permuted(order: tuple[int, ...]) -> LinearLayout:
    columns = [1 << bit for bit in order]
    return layout_of(columns[:3], columns[3:8], columns[8:])


@settings(max_examples=40)
@given(st.permutations(range(8)).map(lambda low: (*low, 8, 9)), st.integers(0, 9), st.integers(0, 9))
def test_triton_calls_trivial_what_moves_nothing(order: tuple[int, ...], a: int, b: int) -> None:
    swapped = list(order)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    source, target = permuted(order), permuted(tuple(swapped))
    assert classify(source, target).is_trivial == trivially_converts(source, target)


@pytest.mark.sweep
def test_triton_lowers_every_exchange_of_two_bits() -> None:
    source = permuted(tuple(range(10)))
    for a, b in itertools.combinations(range(10), 2):
        order = list(range(10))
        order[a], order[b] = order[b], order[a]
        target = permuted(tuple(order))
        conversion, counts = classify(source, target), lowered(source, target)
        assert (counts["st.shared"] > 0) == (conversion.kind is Kind.SHARED), (a, b, counts)
        assert counts["shfl.sync"] == conversion.shuffles(4), (a, b, counts)


@pytest.mark.sweep
@settings(max_examples=60, derandomize=True)
@given(st.data(), st.sampled_from([7, 8, 9]), st.integers(0, 1), st.integers(0, 2))
def test_triton_never_does_with_less(data: st.DataObject, bits: int, warps: int, free: int) -> None:
    """With replicas too: where Triton needs no shuffle or no shared memory, neither do we."""
    codomain = Space.of_shape((4, 1 << bits - 2))
    columns = data.draw(st.permutations([*(1 << bit for bit in range(bits)), *[0] * free]))
    other = list(columns)
    for _ in range(3):
        a, b = (data.draw(st.integers(0, len(columns) - 1)) for _ in range(2))
        other[a], other[b] = other[b], other[a]
    domain = hardware_space({"register": len(columns) - 5 - warps, "lane": 5, "warp": warps})
    source, target = (LinearLayout(domain, codomain, tuple(c)) for c in (columns, other))
    conversion, counts = classify(source, target), lowered(source, target)
    if counts["st.shared"] == 0:
        assert conversion.kind <= Kind.WARP
        assert counts["shfl.sync"] >= conversion.shuffles(4)
        if counts["shfl.sync"] == 0:
            assert conversion.kind <= Kind.REGISTERS


# ---- what must fail


def test_what_must_fail() -> None:
    with pytest.raises(LayoutgenError, match=r"classify: the source is \[1024\], the target \[32, 32\]"):
        classify(BASE, BASE.reshape((32, 32)))
    turned = LinearLayout(Space(BASE.domain.dims[::-1]), BASE.codomain, BASE.columns)
    with pytest.raises(LayoutgenError, match=r"classify: the target starts from \(register: 32, .*block, warp, la"):
        classify(BASE, turned)
    with pytest.raises(LayoutgenError, match="classify: 1 warps in the source, 2 in the target"):
        classify(BASE, layout_of([1, 2, 4, 8], LANES, [16]))
    with pytest.raises(LayoutgenError, match=r"classify: register4 of the target wants \(16,\), which nobody holds"):
        classify(layout_of([1, 2, 4, 8], LANES), BASE)


def test_pairs_reach_every_rung() -> None:
    """The strategy above is worth its name: all rungs come up."""
    seen: set[Kind] = set()

    @settings(max_examples=300, database=None)
    @given(pairs())
    def collect(pair: tuple[LinearLayout, LinearLayout]) -> None:
        seen.add(classify(*pair).kind)

    collect()
    assert {Kind.IDENTICAL, Kind.REGISTERS, Kind.WARP, Kind.SHARED} <= seen
