"""The atom table against the ISA's formulas, written out a second time as arithmetic on lane and register numbers."""

from collections.abc import Callable

import pytest

from layoutgen.atoms import CATALOGUE, atom

Holds = Callable[[int, int], tuple[int, int]]
"""(lane, register) -> the coordinates of the element that is held there."""


def thread(lane: int) -> int:
    """The thread within its quadpair: lane % 4, and 4 more in the upper half of the warp."""
    return lane % 4 + 4 * (lane // 16)


def c_f32(lane: int, v: int) -> tuple[int, int]:
    row = (lane & 1) + (v & 2) + 4 * (lane >= 16)
    column = (v & 4) + (lane & 2) + (v & 1)
    return row, column


FORMULAS: dict[str, dict[str, tuple[int, Holds]]] = {
    "SM70_8x8x4_F32F16F16F32_TN": {
        "a": (4, lambda lane, i: (thread(lane), i)),
        "b": (4, lambda lane, i: (thread(lane), i)),
        "accumulator": (8, c_f32),
    },
}
"""Atom -> operand -> registers a thread, and the formula. B's coordinates are (column, k)."""


def test_every_atom_of_the_catalogue_has_a_second_enumeration() -> None:
    assert {a.name for a in CATALOGUE} == set(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("operand", ["a", "b", "accumulator"])
def test_the_table_is_the_isa_s_formula(name: str, operand: str) -> None:
    registers, holds = FORMULAS[name][operand]
    found = atom(name)
    table = found.table(operand)
    assert found.fragment(operand).elements == registers
    for lane in range(32):
        for register in range(registers):
            assert table(lane=lane, register=register) == holds(lane, register), (lane, register)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_fragments_compute_a_whole_product(name: str) -> None:
    """Every element of D has one owner per independent product, and its A row and B column are held there."""
    m, n, k = atom(name).shape
    products = 1 << len(atom(name).free_lane_bits)
    for operand, size in (("a", m * k), ("b", n * k), ("accumulator", m * n)):
        registers, holds = FORMULAS[name][operand]
        held = [holds(lane, register) for lane in range(32) for register in range(registers)]
        assert len(set(held)) == size
        assert len(held) % (size * products) == 0
        if operand == "accumulator":
            assert len(held) == size * products


@pytest.mark.parametrize("name", FORMULAS)
def test_words_are_32_bit_registers(name: str) -> None:
    found = atom(name)
    for operand in ("a", "b", "accumulator"):
        fragment = found.fragment(operand)
        bits = {"float16": 16, "bfloat16": 16, "float32": 32}[fragment.dtype]
        assert fragment.words * 32 == fragment.elements * bits
