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


def m8n8k4(a: str, b: str, accumulator: str) -> dict[str, tuple[int, Holds]]:
    """The ISA's four cases: a thread holds one row of a .row A and four rows of a .col one; B's columns likewise."""

    def one_k(lane: int, i: int) -> tuple[int, int]:
        return thread(lane), i

    def four_rows(lane: int, i: int) -> tuple[int, int]:
        return i + 4 * (lane // 16), lane % 4

    return {
        "a": (4, {"row": one_k, "col": four_rows}[a]),
        "b": (4, {"col": one_k, "row": four_rows}[b]),
        "accumulator": (8, {"f32": c_f32, "f16": lambda lane, i: (thread(lane), i)}[accumulator]),
    }


def c_m16n8(lane: int, v: int) -> tuple[int, int]:
    return lane // 4 + 8 * (v // 2), 2 * (lane % 4) + v % 2


M16N8K8: dict[str, tuple[int, Holds]] = {
    "a": (4, lambda lane, i: (lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2)),
    "b": (2, lambda lane, i: (lane // 4, 2 * (lane % 4) + i)),
    "accumulator": (4, c_m16n8),
}
M16N8K16: dict[str, tuple[int, Holds]] = {
    "a": (8, lambda lane, i: (lane // 4 + 8 * (i // 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i // 4))),
    "b": (4, lambda lane, i: (lane // 4, 2 * (lane % 4) + i % 2 + 8 * (i // 2))),
    "accumulator": (4, c_m16n8),
}

FORMULAS: dict[str, dict[str, tuple[int, Holds]]] = {
    "SM70_8x8x4_F32F16F16F32_TN": m8n8k4("row", "col", "f32"),
    "SM70_8x8x4_F32F16F16F32_NT": m8n8k4("col", "row", "f32"),
    "SM70_8x8x4_F32F16F16F32_NN": m8n8k4("col", "col", "f32"),
    "SM70_8x8x4_F32F16F16F32_TT": m8n8k4("row", "row", "f32"),
    "SM70_8x8x4_F16F16F16F16_TN": m8n8k4("row", "col", "f16"),
    "SM70_8x8x4_F16F16F16F16_NT": m8n8k4("col", "row", "f16"),
    "SM70_8x8x4_F16F16F16F16_NN": m8n8k4("col", "col", "f16"),
    "SM70_8x8x4_F16F16F16F16_TT": m8n8k4("row", "row", "f16"),
    "SM75_16x8x8_F32F16F16F32_TN": M16N8K8,
    "SM80_16x8x8_F32F16F16F32_TN": M16N8K8,
    "SM80_16x8x8_F32BF16BF16F32_TN": M16N8K8,
    "SM80_16x8x16_F32F16F16F32_TN": M16N8K16,
    "SM80_16x8x16_F32BF16BF16F32_TN": M16N8K16,
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


def test_names_and_aliases_are_unique() -> None:
    names = [name for a in CATALOGUE for name in (a.name, a.alias)]
    assert len(set(names)) == len(names)
    for found in CATALOGUE:
        assert atom(found.name) is atom(found.alias) is found


def test_instructions_spell_their_shapes_orders_and_dtypes() -> None:
    for found in CATALOGUE:
        m, n, k = found.shape
        assert found.instruction.startswith(f"mma.sync.aligned.m{m}n{n}k{k}.")
        *_, a_order, b_order, d, a, b, c = found.instruction.split(".")
        ptx = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
        assert (a, b) == (ptx[found.a.dtype], ptx[found.b.dtype])
        assert c == d == ptx[found.accumulator.dtype]
        assert found.name.endswith({"row": "T", "col": "N"}[a_order] + {"row": "T", "col": "N"}[b_order])


def test_what_holds_more_than_the_accumulator_is_cut_into_parts() -> None:
    assert {a.alias: a.parts("a") for a in CATALOGUE if a.parts("a") > 1} == {"m16n8k16": 2, "m16n8k16.bf16": 2}
    assert all(a.parts("b") == 1 for a in CATALOGUE)
