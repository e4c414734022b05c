"""A whole operand as a thread holds it, and the known non-triviality of P."""

import pytest

from layoutgen.algebra import Kind, classify
from layoutgen.atoms import CATALOGUE, atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling import Tiling, derive
from tests.proofs.test_catalogue import arrangements
from tests.triton_oracle import lowered, trivially_converts


def check_operand(tiling: Tiling, operand: str, block_k: int) -> None:
    """Post-condition: k-step s of part p holds what the fragment holds, s steps and p parts further along k."""
    whole = tiling.operand(operand, block_k)
    fragment = tiling.fragment_a if operand == "a" else tiling.fragment_b
    own = tiling.atom.fragment(operand).elements
    parts = tiling.unit.parts(operand)
    k = tiling.unit.shape[2]
    steps = block_k // k
    for lane in range(0, 32, 3):
        for register in range(own):
            part, low = divmod(register, own // len(parts))
            row, first = fragment(register=low, lane=lane)
            for step in range(steps):
                assert whole(register=register + own * step, lane=lane) == (row, first + parts[part] + step * k)


@pytest.mark.parametrize("found", CATALOGUE, ids=str)
def test_is_the_fragments_of_all_k_steps(found: object) -> None:
    tiling = derive(found, 64, 32, (2, 1))  # type: ignore[arg-type]
    for operand in ("a", "b"):
        check_operand(tiling, operand, 32)
        assert tiling.operand(operand, 32).is_surjective


def test_p_is_not_trivially_an_operand() -> None:
    """The accumulator of S as the A operand of P V: an exchange, and half of the values stay in their thread."""
    tiling = derive(atom("m8n8k4"), 16, 32, (1, 1))
    conversion = classify(tiling.accumulator, tiling.operand("a", 32))
    assert conversion.kind is Kind.WARP
    assert not conversion.is_trivial
    assert conversion.kept == 0.5
    # a1 holds a key bit and must hold row bit 1, which is in register bit v1; q1 holds a key bit and must be free.
    assert ("lane1", "register1") in conversion.swaps
    assert ("lane3", "register3") in conversion.swaps
    assert conversion.witness == "register 2 wants (0, 2), which is in lane 2, register 0"


def test_triton_takes_p_through_shared_memory() -> None:
    """Two pairs of bits trade places; Triton spends shuffles on one pair at most."""
    tiling = derive(atom("m8n8k4"), 16, 32, (1, 1))
    counts = lowered(tiling.accumulator, tiling.operand("a", 32), "f16")
    assert counts["st.shared"] > 0
    assert counts["shfl.sync"] == 0
    assert classify(tiling.accumulator, tiling.operand("a", 32)).shuffles(2) == 12


def test_no_arrangement_keeps_more_than_half_of_p() -> None:
    found = atom("m8n8k4")
    kept = set()
    for arrangement in arrangements(found):
        if "k" in arrangement:
            continue
        tiling = derive(found, 32, 32, (1, 1), arrangement)
        conversion = classify(tiling.accumulator, tiling.operand("a", 32))
        assert not conversion.is_trivial
        kept.add(conversion.kept)
    assert max(kept) == 0.5


def test_the_fp16_accumulator_of_one_quadpair_row_is_an_operand() -> None:
    """D[m = t, n = i] is A[m = t, k = i]: stacked 4x1, P never leaves its thread."""
    tiling = derive(atom("m8n8k4.f16"), 32, 32, (1, 1), "m3,m4")
    assert classify(tiling.accumulator, tiling.operand("a", 32)).is_trivial


def test_m16n8k16_takes_its_accumulators_as_an_operand() -> None:
    """Known from flash attention on Ampere: two neighbouring accumulators are one A fragment."""
    tiling = derive(atom("m16n8k16"), 16, 32, (1, 1))
    assert classify(tiling.accumulator, tiling.operand("a", 32)).is_trivial
    assert trivially_converts(tiling.accumulator, tiling.operand("a", 32))


def test_what_must_fail() -> None:
    tiling = derive(atom("m8n8k4"), 16, 32, (1, 1))
    with pytest.raises(LayoutgenError, match="operand c: a tiling has a and b"):
        tiling.operand("c", 32)
    with pytest.raises(LayoutgenError, match="block_k = 2: must be a power of two and at least 4"):
        tiling.operand("a", 2)
