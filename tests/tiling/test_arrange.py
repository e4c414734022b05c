"""Where the free lane bits go."""

from itertools import permutations

import pytest

from layoutgen.atoms import atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling import arrange, derive

ATOM = atom("m8n8k4")


@pytest.mark.parametrize(
    ("arrangement", "shape"),
    [
        ("m3,n3", (16, 16, 4)),
        ("n3,m3", (16, 16, 4)),
        ("m3,m4", (32, 8, 4)),
        ("n3,n4", (8, 32, 4)),
        ("m2,n0", (16, 16, 4)),
    ],
)
def test_the_unit_grows_where_the_free_bits_are_put(arrangement: str, shape: tuple[int, int, int]) -> None:
    unit = arrange(ATOM, arrangement)
    assert unit.shape == shape
    assert unit.arrangement == arrangement
    table = unit.table("accumulator")
    assert table.is_bijective
    assert table.shape == shape[:2]


def test_a_free_bit_on_row_bit_2() -> None:
    accumulator = derive(ATOM, 16, 16, (1, 1), "m2,n3").accumulator
    # a0, a1 and q0; the atom's own row bit 2 (b) moves up to 3.
    assert accumulator.bases["lane"] == [[1, 0], [0, 2], [4, 0], [0, 8], [8, 0]]


def test_every_place_of_the_two_free_bits_gives_a_bijection() -> None:
    places = [f"{axis}{bit}" for axis in "mn" for bit in range(5)]
    accepted = 0
    for first, second in permutations(places, 2):
        try:
            unit = arrange(ATOM, f"{first},{second}")
        except LayoutgenError:
            continue
        accepted += 1
        assert unit.table("accumulator").is_bijective
    # Both on one axis: 5 * 4 ordered places; one on each: 4 * 4 places and two orders.
    assert accepted == 2 * 5 * 4 + 2 * 4 * 4


@pytest.mark.parametrize(
    ("arrangement", "message"),
    [
        ("m3", r"1 places for the 2 free lane bits of m8n8k4 \(q0 q1\); for example 'm3,n3'"),
        ("m3,n3,n4", "3 places for the 2 free lane bits"),
        ("m3,x3", "'x3' is not a row, column or k bit"),
        ("m3,m3", "m has 5 bits with it; its places must differ and lie in m0..m4"),
        ("m4,n3", "m has 4 bits with it; its places must differ and lie in m0..m3"),
        ("k2,m3", "'k2' makes partial sums, which nothing here adds up; use row and column bits"),
        ("", "0 places for the 2 free lane bits"),
    ],
)
def test_arrangements_that_are_none(arrangement: str, message: str) -> None:
    with pytest.raises(LayoutgenError, match=message):
        arrange(ATOM, arrangement)
