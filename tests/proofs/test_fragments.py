"""Claim 4: every register of every lane holds what the instruction's table says."""

from dataclasses import replace

import pytest

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import atom
from layoutgen.proofs.fragments import holds_fragment, sums_partition
from layoutgen.tiling import arrange, derive
from tests.proofs.helpers import ATOM, SMALL, proved, refuted, swapped, tiling_of, with_basis
from tests.tiling.canonical import Canonical

CASE = Canonical(2, 2, 2, 1)
UNIT = arrange(ATOM)


def check_instruction(accumulator: LinearLayout, a: LinearLayout, b: LinearLayout) -> None:
    """Post-condition, by the ISA's definition: D[m, n] = sum of A[m, k] B[k, n] for all four quadpairs.

    With symbols for numbers: the row of A that a quadpair multiplies into an accumulator element is that element's
    own row, the column of B its own column, and k agrees on both sides.
    """
    registers = 1 << accumulator.domain.bits_of("register")
    for warp in range(1 << accumulator.domain.bits_of("warp")):
        for chunk in range(0, registers, 8):
            for quadpair in range(4):
                lanes = [4 * quadpair + t % 4 + 16 * (t // 4) for t in range(8)]
                rows = [{a(register=chunk + i, lane=lane, warp=warp) for i in range(4)} for lane in lanes]
                columns = [{b(register=chunk + i, lane=lane, warp=warp) for i in range(4)} for lane in lanes]
                for lane in lanes:
                    for v in range(8):
                        m = (lane & 1) + (v & 2) + 4 * (lane >= 16)
                        n = (v & 1) + (lane & 2) + (v & 4)
                        row, column = accumulator(register=chunk + v, lane=lane, warp=warp)
                        assert rows[m] == {(row, k) for k in range(4)}
                        assert columns[n] == {(column, k) for k in range(4)}


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_derived_fragment_is_what_the_instruction_wants(case: Canonical) -> None:
    tiling = tiling_of(case)
    for operand, fragment in (("a", tiling.fragment_a), ("b", tiling.fragment_b)):
        verdict = proved(holds_fragment(operand, UNIT, operand, tiling.accumulator, fragment))
        assert (verdict.method, verdict.obligation.claim) == ("exhaustive", 4)
        assert verdict.facts == (f"{tiling.instructions * tiling.num_warps * 128} register elements compared",)


@pytest.mark.parametrize("case", [Canonical(1, 1, 1, 1), Canonical(2, 2, 2, 1), Canonical(2, 4, 1, 2)], ids=str)
def test_the_fragments_multiply_to_the_product(case: Canonical) -> None:
    tiling = tiling_of(case)
    check_instruction(tiling.accumulator, tiling.fragment_a, tiling.fragment_b)


@pytest.mark.parametrize(
    ("name", "bit", "basis", "witness"),
    [
        ("register", 0, [0, 2], "register 1 holds (0, 2); the instruction wants (0, 1)"),
        ("register", 1, [1, 0], "register 2 holds (1, 0); the instruction wants (0, 2)"),
        ("register", 4, [0, 0], ""),
        ("lane", 0, [2, 0], "lane 1 holds (2, 0); the instruction wants (1, 0)"),
        ("lane", 2, [0, 0], "lane 4 holds (0, 0); the instruction wants (8, 0)"),
        ("lane", 3, [1, 0], "lane 8 holds (1, 0); the instruction wants (0, 0)"),
        ("lane", 4, [4, 1], "lane 16 holds (4, 1); the instruction wants (4, 0)"),
        ("warp", 0, [0, 0], "warp 1 holds (0, 0); the instruction wants (16, 0)"),
    ],
)
def test_a_wrong_basis_is_refuted_with_the_basis_and_the_element(
    name: str, bit: int, basis: list[int], witness: str
) -> None:
    # Two rows of units: registers are v0 v1 v2, then the repeat along n, then that along m.
    tiling = tiling_of(Canonical(4, 2, 2, 1))
    wrong = with_basis(tiling.fragment_a, name, bit, basis)
    verdict = refuted(holds_fragment("fragment_a", UNIT, "a", tiling.accumulator, wrong))
    assert verdict.basis == f"{name}{bit}"
    assert verdict.witness == (witness or "register 16 holds (0, 0); the instruction wants (32, 0)")


def test_the_unused_registers_of_an_operand_may_hold_anything() -> None:
    tiling = tiling_of(CASE)
    loose = with_basis(tiling.fragment_a, "register", 2, [1, 0])
    proved(holds_fragment("fragment_a", UNIT, "a", tiling.accumulator, loose))


def test_a_wrong_b_is_refuted() -> None:
    tiling = tiling_of(CASE)
    verdict = refuted(
        holds_fragment(
            "fragment_b", UNIT, "b", tiling.accumulator, swapped(tiling.fragment_b, ("lane", 0), ("lane", 1))
        )
    )
    assert verdict.basis == "lane0"
    assert verdict.witness == "lane 1 holds (2, 0); the instruction wants (1, 0)"


def test_an_accumulator_whose_rows_the_instruction_cannot_write_is_refuted() -> None:
    # v0 is a column bit of the instruction; on a row, one instruction row would be two tensor rows.
    tiling = tiling_of(CASE)
    wrong = swapped(tiling.accumulator, ("register", 0), ("lane", 0))
    verdict = refuted(holds_fragment("fragment_a", UNIT, "a", wrong, tiling.fragment_a))
    assert verdict.basis == "register0"
    assert verdict.witness == (
        "the accumulator of register 1 is in row 1, but the instruction puts it into the row of an accumulator "
        "that is in row 0"
    )


def test_another_accumulator_wants_other_operands() -> None:
    """Rows exchanged in the accumulator and in A alike are right again: the claim is relative to both."""
    tiling = tiling_of(CASE)
    pair = (("lane", 0), ("lane", 4))
    accumulator = swapped(tiling.accumulator, *pair)
    refuted(holds_fragment("fragment_a", UNIT, "a", accumulator, tiling.fragment_a))
    proved(holds_fragment("fragment_a", UNIT, "a", accumulator, swapped(tiling.fragment_a, *pair)))


# ---- operands in parts, and partial sums


def test_both_parts_of_an_operand_are_checked() -> None:
    tiling = derive(atom("m16n8k16"), 32, 16, (2, 1))
    verdict = proved(holds_fragment("a", tiling.unit, "a", tiling.accumulator, tiling.fragment_a))
    # Two warps, two repeats along n, two parts of four halves in each of 32 lanes.
    assert verdict.facts == (f"{2 * 2 * 2 * 4 * 32} register elements compared",)


def test_a_wrong_second_part_is_refuted() -> None:
    """An instruction whose upper half of k belongs to other rows wants another second part."""
    good = atom("m16n8k16")
    tiling = derive(good, 16, 8, (1, 1))
    unit = replace(
        tiling.unit, atom=replace(good, a=replace(good.a, rows=(("m", "g0 g1 g2^i2 i1"), ("k", "i0 l0 l1 i2"))))
    )
    verdict = refuted(holds_fragment("a", unit, "a", tiling.accumulator, tiling.fragment_a))
    assert verdict.witness == "register 0 of part 1 holds (0, 8); the instruction wants (4, 8)"


@pytest.mark.parametrize("arrangement", ["k2,m3", "m3,k0", "k2,k3", "k3,k0", "n3,k1"])
def test_partial_sums_take_each_k_once(arrangement: str) -> None:
    tiling = derive(ATOM, 32, 32, (2, 1), arrangement)
    sums = tiling.unit.partial_sums
    assert tiling.accumulator.shape == (sums, 32, 32)
    proved(sums_partition("accumulator", tiling.unit, tiling.accumulator))
    for operand, fragment in (("a", tiling.fragment_a), ("b", tiling.fragment_b)):
        proved(holds_fragment(operand, tiling.unit, operand, tiling.accumulator, fragment))
    # By hand: over the lanes that share a row of A, each k of the step is held by exactly one partial sum.
    held: dict[tuple[int, int], set[int]] = {}
    for lane in range(32):
        for register in range(4):
            row, k = tiling.fragment_a(register=register, lane=lane)
            held.setdefault((row, k), set()).add(tiling.accumulator(lane=lane)[0])
    assert all(len(owners) == 1 for owners in held.values())
    assert {k for _, k in held} == set(range(4 * sums))


def test_a_sum_in_the_wrong_place_is_refuted() -> None:
    tiling = derive(ATOM, 16, 16, (1, 1), "k2,k3")
    bases = tiling.accumulator.bases
    bases["lane"][2], bases["lane"][3] = bases["lane"][3], bases["lane"][2]
    wrong = LinearLayout.from_bases(bases, tiling.accumulator.shape)
    verdict = refuted(sums_partition("accumulator", tiling.unit, wrong))
    assert verdict.basis == "lane2"
    assert verdict.witness == "lane 4 holds partial sum 2; its k are those of partial sum 1"
