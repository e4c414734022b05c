"""Shared-memory wavefronts: brute force, and what is known of real stagings."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from layoutgen.algebra import Access, Blocked, LinearLayout, Space, access, banks, gf2, hardware_space, wavefronts
from layoutgen.algebra.banks import conflict, least_wavefronts, phases, vector_elements
from layoutgen.algebra.swizzle import Swizzle
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import layouts_between
from tests.triton_oracle import bank_conflicts


def brute_force(addresses: list[int], width: int) -> int:
    """Count, byte by byte, the distinct words per bank of every phase."""
    lanes = len(addresses) // max(1, width // 4)
    total = 0
    for start in range(0, len(addresses), lanes):
        touched = np.zeros((32, 1 << 16), dtype=bool)
        for address in addresses[start : start + lanes]:
            for byte in range(address, address + width):
                touched[byte // 4 % 32, byte // 128] = True
        total += int(touched.sum(axis=1).max())
    return total


@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(0, 1023), min_size=32, max_size=32))
def test_wavefronts_of_any_addresses(width: int, units: list[int]) -> None:
    addresses = [unit * width for unit in units]
    assert wavefronts(addresses, width) == brute_force(addresses, width)
    assert least_wavefronts(addresses, width) <= wavefronts(addresses, width)


@pytest.mark.parametrize(
    ("stride", "width", "expected"),
    [
        (4, 4, 1),  # consecutive words
        (0, 4, 1),  # one word for all: duplicates are free
        (8, 4, 2),  # every other word
        (128, 4, 32),  # one bank
        (132, 4, 1),  # a column of a tile padded by one word
        (2, 2, 1),  # two lanes a word
        (8, 8, 2),  # 256 bytes in 64-bit accesses
        (16, 16, 4),  # 512 bytes in 128-bit accesses
        (144, 16, 4),  # rows of 128 bytes padded by 16
        (0, 16, 4),  # duplicates are free within a phase, not across phases
    ],
)
def test_strided_accesses(stride: int, width: int, expected: int) -> None:
    assert wavefronts([stride * lane for lane in range(32)], width) == expected


def test_duplicates_across_phases_are_paid_twice() -> None:
    # The fragment read of m8n8k4 in quadpairs 2x2: lanes 4 or 8 apart read the same 8 bytes, 128 bytes in all.
    fragment = LinearLayout.from_bases(
        {"register": [[0, 1], [0, 2]], "lane": [[1, 0], [2, 0], [8, 0], [0, 0], [4, 0]]}, (16, 4)
    )
    cost = access(fragment, 2)
    assert (cost.instructions, cost.width_bytes, cost.wavefronts) == (1, 8, 2)


def staged_as_k_steps(blocked: Blocked, rows: int, columns: int) -> LinearLayout:
    """Return where a [rows, columns] tile with k along its columns lands in a buffer [k-step, rows, 4]."""
    return blocked.layout((rows, columns)).reshape((rows, columns // 4, 4)).permute((1, 0, 2))


def test_the_straightforward_row_major_staging_takes_8_wavefronts_where_2_suffice() -> None:
    layout = staged_as_k_steps(Blocked((1, 8), (8, 4), (4, 1), (1, 0)), 64, 32)
    cost = access(layout, 2)
    assert cost.width_bytes == 8
    assert cost.wavefronts == 8 * cost.instructions
    assert cost.minimum == 2 * cost.instructions
    assert not cost.conflict_free


def test_storing_weights_takes_2_wavefronts_where_1_suffices() -> None:
    # P in the m8n8k4 accumulator of [16, 32], stored as [k-step, rows, 4], two neighbours at a time at most.
    accumulator = LinearLayout.from_bases(
        {
            "register": [[0, 1], [2, 0], [0, 4], [0, 16]],
            "lane": [[1, 0], [0, 2], [8, 0], [0, 8], [4, 0]],
        },
        (16, 32),
    )
    cost = access(accumulator.reshape((16, 8, 4)).permute((1, 0, 2)), 2)
    assert cost.width_bytes == 4
    assert cost.wavefronts == 2 * cost.instructions
    assert cost.minimum == cost.instructions


def test_the_transposed_value_tile_is_conflict_free() -> None:
    blocked = Blocked((4, 2), (1, 32), (4, 1), (1, 0))
    layout = blocked.layout((32, 64)).reshape((8, 4, 64)).permute((0, 2, 1))
    cost = access(layout, 2)
    assert (cost.width_bytes, cost.wavefronts // cost.instructions) == (16, 4)
    assert cost.conflict_free
    halves = [16 * lane for lane in range(32)]
    assert wavefronts(halves, 8) == 4  # as STS.64, where 2 would suffice


@st.composite
def buffers(draw: st.DrawFn) -> LinearLayout:
    """Any layout of a warp into a buffer, zero bases and sums included."""
    codomain = Space.of_shape((1 << draw(st.integers(4, 10)),))
    domain = hardware_space({"register": draw(st.integers(0, 4)), "lane": 5})
    return draw(layouts_between(domain, codomain))


@given(buffers(), st.sampled_from([1, 2, 4, 8]))
def test_the_closed_form_is_the_brute_force_count(layout: LinearLayout, element_bytes: int) -> None:
    own = [column for column in layout.columns[: layout.domain.bits_of("register")] if column]
    assume(gf2.rank(own) == len(own))
    cost = access(layout, element_bytes)
    vector = cost.width_bytes // element_bytes
    assert vector == vector_elements(layout, element_bytes)
    registers = 1 << layout.domain.bits_of("register")
    images = layout.table().reshape(32, registers)
    # One instruction per register that starts a vector and replicates no other.
    free = [1 << i for i, column in enumerate(layout.columns[: registers.bit_length() - 1]) if column == 0]
    starts = [r for r in range(registers) if images[0, r] % vector == 0 and not any(r & bit for bit in free)]
    held = [r for r in range(registers) if images[0, r] // vector == images[0, starts[0]] // vector]
    assert len(held) >= vector
    assert len(starts) == cost.instructions
    addresses = [[int(images[lane, r]) * element_bytes for lane in range(32)] for r in starts]
    assert all(address % cost.width_bytes == 0 for group in addresses for address in group)
    assert sum(brute_force(group, cost.width_bytes) for group in addresses) == cost.wavefronts
    assert sum(least_wavefronts(group, cost.width_bytes) for group in addresses) == cost.minimum


@given(buffers(), st.sampled_from([1, 2, 4, 8]))
def test_a_conflict_is_two_words_of_one_bank(layout: LinearLayout, element_bytes: int) -> None:
    found = conflict(layout, element_bytes)
    cost = access(layout, element_bytes)
    assert (found is None) == cost.conflict_free
    if found is not None:
        match = re.fullmatch(r"lanes 0 and (\d+) want words 0 and (\d+), both in bank 0", found)
        assert match is not None
        lane, word = int(match[1]), int(match[2])
        first = int(layout.table()[lane << layout.domain.bits_of("register")]) * element_bytes // 4
        assert word in range(first, first + max(1, cost.width_bytes // 4))
        assert word % 32 == 0
        assert word > 0


@settings(max_examples=200)
@given(
    st.permutations(range(10)),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([(1, 1, 1), (4, 1, 4), (2, 2, 8), (8, 1, 4)]),
)
def test_triton_counts_the_same_conflicts(order: list[int], element_bytes: int, rule: tuple[int, int, int]) -> None:
    """`gl.bank_conflicts` counts the wavefronts beyond the first of one phase of one instruction."""
    columns = tuple(1 << bit for bit in order)
    layout = LinearLayout(hardware_space({"register": 5, "lane": 5}), Space.of_shape((32, 32)), columns)
    cost = access(Swizzle(*rule).place(layout), element_bytes)
    each = cost.wavefronts // cost.instructions // phases(cost.width_bytes)
    assert bank_conflicts(layout, element_bytes, rule) == each - 1


@pytest.mark.parametrize(("width", "count"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_phases(width: int, count: int) -> None:
    assert phases(width) == count


@pytest.mark.parametrize("width", [0, 3, 32])
def test_widths_that_do_not_exist(width: int) -> None:
    with pytest.raises(LayoutgenError, match=f"phases: an access of {width} bytes a lane; 1, 2, 4, 8 or 16 exist"):
        phases(width)


def test_a_conflict_that_rank_alone_sees_is_a_fault_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    row = LinearLayout.from_bases({"lane": [[1], [2], [4], [8], [16]]}, (32,))
    assert conflict(row, 4) is None
    monkeypatch.setattr(banks, "access", lambda *_: Access(1, 4, 2, 1))
    with pytest.raises(AssertionError, match="yet no two words share one"):
        conflict(row, 4)
