"""Every atom of the catalogue in every arrangement, over a grid of blocks: derived and proved."""

from collections.abc import Iterator
from itertools import product

import pytest

from layoutgen.atoms import CATALOGUE, Atom, atom
from layoutgen.errors import LayoutgenError
from layoutgen.proofs import prove, require
from layoutgen.tiling import arrange, derive


def arrangements(found: Atom) -> list[str]:
    """Return every legal way to spend the free lane bits, by trying all."""
    axes = [f"{axis}{bit}" for axis in "mnk" for bit in range(6)]
    result = []
    for places in product(axes, repeat=len(found.free_lane_bits)):
        text = ",".join(places)
        try:
            arrange(found, text, partial_sums=True)
        except LayoutgenError:
            continue
        result.append(text)
    return result


def cases(unit_multiples: tuple[int, ...]) -> Iterator[tuple[Atom, str, int, int, tuple[int, int]]]:
    for found in CATALOGUE:
        for arrangement in arrangements(found):
            unit = arrange(found, arrangement, partial_sums=True)
            for mb, nb in product(unit_multiples, repeat=2):
                yield found, arrangement, mb * unit.shape[0], nb * unit.shape[1], (min(mb, 2), 1)


def test_the_two_free_bits_of_m8n8k4_have_132_arrangements() -> None:
    # On one axis: 5 * 4 ordered places on m or n, 4 * 3 on k; on two: 4 * 4 on m and n, 4 * 3 with k, in two orders.
    assert len(arrangements(atom("m8n8k4"))) == 2 * 20 + 12 + 2 * 16 + 4 * 12
    assert arrangements(atom("m16n8k16")) == [""]


@pytest.mark.parametrize("found", CATALOGUE, ids=str)
def test_every_atom_is_proved_in_a_block(found: Atom) -> None:
    require(prove(derive(found, 64, 64, (2, 2))))


@pytest.mark.parametrize("arrangement", arrangements(atom("m8n8k4"))[::5])
def test_every_fifth_arrangement_is_proved(arrangement: str) -> None:
    for name in ("m8n8k4", "m8n8k4.col.row"):
        require(prove(derive(atom(name), 64, 32, (2, 1), arrangement)))


@pytest.mark.sweep
def test_the_whole_grid_is_proved() -> None:
    count = 0
    for found, arrangement, block_m, block_n, warps in cases((1, 2)):
        require(prove(derive(found, block_m, block_n, warps, arrangement)))
        count += 1
    assert count >= 2000


# ---- which operand bits an arrangement broadcasts


def lane_broadcasts(arrangement: str, operand: str) -> tuple[str, ...]:
    """Return the lane bits over which an operand of one unit of m8n8k4 is broadcast."""
    unit = arrange(atom("m8n8k4"), arrangement, partial_sums=True)
    tiling = derive(unit.atom, *unit.shape[:2], (1, 1), arrangement)
    return tuple(name for name in tiling.broadcasts(operand) if name in unit.atom.lane_names)


def check_broadcasts(arrangement: str) -> None:
    """Post-condition: lanes that differ in a named bit hold the same of an operand, and of no other lane bit is it so.

    What a lane holds is read from the unit's own table, which no block enters.
    """
    unit = arrange(atom("m8n8k4"), arrangement, partial_sums=True)
    for operand in ("a", "b"):
        table = unit.table(operand)
        free = {name for bit, name in enumerate(unit.atom.lane_names) if table(lane=1 << bit) == table(lane=0)}
        assert free == set(lane_broadcasts(arrangement, operand))


@pytest.mark.parametrize(
    ("arrangement", "a", "b"),
    [
        ("m3,n3", ("q1",), ("q0",)),
        ("m2,n3", ("q1",), ("q0",)),
        ("m3,m4", (), ("q0", "q1")),
        ("n3,n4", ("q0", "q1"), ()),
        ("k2,m3", (), ("q1",)),
        ("k2,k3", (), ()),
    ],
)
def test_known_broadcasts(arrangement: str, a: tuple[str, ...], b: tuple[str, ...]) -> None:
    assert lane_broadcasts(arrangement, "a") == a
    assert lane_broadcasts(arrangement, "b") == b


@pytest.mark.parametrize("arrangement", arrangements(atom("m8n8k4"))[::7])
def test_broadcasts_are_what_the_table_does_not_read(arrangement: str) -> None:
    check_broadcasts(arrangement)


def test_a_block_broadcasts_its_repeats_and_warps_as_well() -> None:
    tiling = derive(atom("m8n8k4"), 64, 64, (2, 2))
    assert tiling.broadcasts("a") == ("v2", "nb1", "q1", "nb0")
    assert tiling.broadcasts("b") == ("v2", "mb1", "q0", "mb0")
