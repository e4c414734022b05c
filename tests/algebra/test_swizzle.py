"""Swizzled and padded buffers, and the search for the best one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.algebra import Blocked, LinearLayout, Space, access, hardware_space, wavefronts
from layoutgen.algebra.swizzle import Padding, Swizzle, best_padding, best_swizzle, swizzles
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates
from tests.triton_oracle import swizzle_to_linear_layout

POWERS = st.sampled_from([1, 2, 4, 8])
ROWS = LinearLayout.from_bases({"lane": [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]}, (32, 32))
COLUMNS = LinearLayout.from_bases({"lane": [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]}, (32, 32))


def check_swizzle(swizzle: Swizzle, shape: tuple[int, int], place: LinearLayout) -> None:
    """Post-condition: Gluon's rule, element by element; every place is taken once."""
    seen = set()
    for row, column in coordinates(shape):
        phase = row // swizzle.per_phase % swizzle.max_phase
        moved = (column // swizzle.vec ^ phase) * swizzle.vec % shape[1] + column % swizzle.vec
        assert place((row, column)) == (row, moved)
        seen.add((row, moved))
    assert len(seen) == shape[0] * shape[1]


@given(POWERS, POWERS, POWERS)
def test_follows_gluon_s_rule(vec: int, per_phase: int, max_phase: int) -> None:
    swizzle = Swizzle(vec, per_phase, max_phase)
    check_swizzle(swizzle, (16, 64), swizzle.into((16, 64)))


@given(POWERS, POWERS, POWERS, st.sampled_from([(16, 64), (64, 8), (4, 32), (2, 8, 16)]))
def test_is_triton_s_shared_layout(vec: int, per_phase: int, max_phase: int, shape: tuple[int, ...]) -> None:
    # Triton maps offsets to elements; a swizzle is its own inverse.
    ours = Swizzle(vec, per_phase, max_phase).into(shape)
    assert ours.compose(ours) == LinearLayout.identity(ours.domain)
    theirs = swizzle_to_linear_layout((vec, per_phase, max_phase), shape)
    assert [list(ours.codomain.unpack(column)) for column in ours.columns] == theirs


def test_a_vector_has_no_swizzle() -> None:
    assert Swizzle(1, 1, 8).into((64,)) == LinearLayout.identity(Space.of_shape((64,)))
    assert swizzles((64,), 2) == [Swizzle(1, 1, 1)]


def test_the_search_finds_a_transposition_without_conflict() -> None:
    choice = best_swizzle([ROWS, COLUMNS], 4)
    assert choice.conflict_free
    assert choice.wavefronts == 2
    assert choice.buffer == Swizzle(1, 1, 32)


def test_the_row_major_staging_becomes_conflict_free() -> None:
    stored = Blocked((1, 8), (8, 4), (1, 1), (1, 0)).layout((64, 32))
    buffer = stored.reshape((64, 8, 4)).permute((1, 0, 2)).reshape((16, 128))
    plain = access(buffer, 2)
    choice = best_swizzle([buffer], 2)
    assert plain.wavefronts == 4 * plain.minimum
    assert choice.conflict_free, str(choice)
    assert choice.wavefronts < plain.wavefronts


@settings(max_examples=60)
@given(st.permutations(range(9)), st.permutations(range(9)), st.sampled_from([2, 4]))
def test_no_swizzle_beats_the_best(first: list[int], second: list[int], element_bytes: int) -> None:
    domain, codomain = hardware_space({"register": 4, "lane": 5}), Space.of_shape((16, 32))
    layouts = [LinearLayout(domain, codomain, tuple(1 << bit for bit in order)) for order in (first, second)]
    choice = best_swizzle(layouts, element_bytes)
    assert isinstance(choice.buffer, Swizzle)
    for swizzle in swizzles((16, 32), element_bytes):
        total = sum(access(swizzle.place(layout), element_bytes).wavefronts for layout in layouts)
        assert choice.wavefronts <= total
    if not choice.conflict_free:
        assert "no swizzle of [16, 32] is conflict-free: with the best, access" in choice.reason
        assert "both in bank 0" in choice.reason


# ---- padding


@given(st.permutations(range(9)), st.sampled_from([8, 16, 32, 64]), st.sampled_from([0, 1, 2, 4]))
def test_padded_accesses_by_hand(order: list[int], interval: int, pad: int) -> None:
    domain, codomain = hardware_space({"register": 4, "lane": 5}), Space.of_shape((16, 32))
    layout = LinearLayout(domain, codomain, tuple(1 << bit for bit in order))
    padding = Padding(interval, pad)
    cost = padding.access(layout, 4)
    vector = cost.width_bytes // 4
    total = 0
    table = layout.table().reshape(32, 16)
    for register in range(16):
        if table[0, register] % vector == 0:
            places = [4 * (int(e) + int(e) // interval * pad) for e in table[:, register]]
            assert all(place % cost.width_bytes == 0 for place in places)
            total += wavefronts(places, cost.width_bytes)
    assert cost.wavefronts == total
    assert cost.instructions == 16 // vector


def test_no_padding_is_the_plain_buffer() -> None:
    for layout in (ROWS, COLUMNS):
        assert Padding(32, 0).access(layout, 4) == access(layout, 4)


def test_one_word_a_row_frees_a_column() -> None:
    assert access(ROWS, 4).wavefronts == 32
    assert Padding(32, 1).access(ROWS, 4).wavefronts == 1
    choice = best_padding([ROWS, COLUMNS], 4)
    assert choice.conflict_free
    assert choice.buffer == Padding(32, 1)
    assert str(choice).startswith("padding of 1 elements after every 32: 1 (1 at least) + 1 (1 at least) wavefronts")


def test_two_rows_a_slab_free_the_staging() -> None:
    """The remedy of the facts: each k-step's slab of 64 rows of 4 halves padded by two 8-byte rows."""
    stored = Blocked((1, 8), (8, 4), (1, 1), (1, 0)).layout((64, 32))
    buffer = stored.reshape((64, 8, 4)).permute((1, 0, 2)).reshape((512, 4))
    cost = Padding(256, 8).access(buffer, 2)
    assert cost.conflict_free
    choice = best_padding([buffer], 2)
    assert choice.conflict_free


def test_where_no_padding_helps_the_reason_says_so() -> None:
    # Lanes 16 bytes apart with 8-byte accesses, and the other way round: one of them always meets itself.
    wide = LinearLayout.from_bases({"lane": [[64], [128], [256], [512], [1024]]}, (2048,))
    deep = LinearLayout.from_bases({"lane": [[32], [64], [512], [1024], [256]]}, (2048,))
    choice = best_padding([wide, deep], 4)
    if not choice.conflict_free:
        assert choice.reason == "no padding of up to 16 bytes makes [2048] conflict-free"
    assert choice.wavefronts <= access(wide, 4).wavefronts + access(deep, 4).wavefronts


def test_what_must_fail() -> None:
    with pytest.raises(LayoutgenError, match="swizzle: vec = 3: must be a power of two"):
        Swizzle(3, 1, 1)
    with pytest.raises(LayoutgenError, match="padding: -1 elements"):
        Padding(8, -1)
    with pytest.raises(LayoutgenError, match="padding: interval = 6: must be a power of two"):
        Padding(6, 1)
    with pytest.raises(LayoutgenError, match=r"best_swizzle: the accesses have shapes \[32, 32\], \[1024\]"):
        best_swizzle([ROWS, ROWS.reshape((1024,))], 4)
    with pytest.raises(LayoutgenError, match="best_padding: the accesses have shapes none"):
        best_padding([], 4)
