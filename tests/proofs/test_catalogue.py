"""Every atom of the catalogue in every arrangement, over a grid of blocks: derived and proved."""

from collections.abc import Iterator
from itertools import product

import pytest

from layoutgen.atoms import CATALOGUE, Atom, atom
from layoutgen.errors import LayoutgenError
from layoutgen.proofs import prove, require
from layoutgen.tiling import Unit, arrange, derive


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


def check_broadcasts(unit: Unit) -> None:
    """Post-condition: an operand holds the same in lanes that differ in the named bits, and in no other free bit."""
    for operand in ("a", "b"):
        table = unit.table(operand)
        free = {
            name
            for name in unit.atom.free_lane_bits
            if not table(lane=1 << unit.atom.lane_names.index(name)).count(0) < 2
        }
        assert free == set(unit.broadcasts(operand))


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
    unit = arrange(atom("m8n8k4"), arrangement, partial_sums=True)
    assert unit.broadcasts("a") == a
    assert unit.broadcasts("b") == b


@pytest.mark.parametrize("arrangement", arrangements(atom("m8n8k4"))[::7])
def test_broadcasts_are_what_the_table_does_not_read(arrangement: str) -> None:
    check_broadcasts(arrange(atom("m8n8k4"), arrangement, partial_sums=True))


def test_a_block_broadcasts_its_repeats_and_warps_as_well() -> None:
    tiling = derive(atom("m8n8k4"), 64, 64, (2, 2))
    assert tiling.broadcasts("a") == ("v2", "nb1", "q1", "nb0")
    assert tiling.broadcasts("b") == ("v2", "mb1", "q0", "mb0")
