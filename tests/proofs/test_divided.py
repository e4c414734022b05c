"""What warps that share rows rest on: it holds for derived layouts, and every wrong basis is refuted by name."""

from dataclasses import replace

import pytest

import layoutgen as lg
from layoutgen.kernels.attention_plan import prove_group
from layoutgen.proofs import refutations
from layoutgen.proofs.divided import shared_out, sums_columns, sums_meet

REQUEST = lg.attention(head_dim=128, design="fast", block_m=64, block_n=32, column_warps=2).request
PARTIAL = REQUEST.score_product.accumulator
QUERY, KEY = REQUEST.fetched["query"], REQUEST.fetched["key"]


def mutants(layout):
    """Every layout that has one basis of another place instead of its own."""
    for bit, column in enumerate(layout.columns):
        for other in {0, *layout.columns} - {column}:
            columns = list(layout.columns)
            columns[bit] = other
            yield bit, replace(layout, columns=tuple(columns))


def test_the_derived_layouts_hold():
    outputs = {part: product.accumulator for part, product in REQUEST.output_products.items()}
    verdicts = prove_group(REQUEST, PARTIAL, REQUEST.matrix_scores, REQUEST.fetched, outputs)
    assert refutations(verdicts) == ()
    assert len(verdicts) == 13


def test_every_wrong_basis_of_the_sums_is_refuted():
    assert sums_meet("S", PARTIAL, REQUEST.matrix_scores).holds
    wrong = [sums_meet("S", mutant, REQUEST.matrix_scores) for _, mutant in mutants(PARTIAL)]
    wrong += [sums_meet("S", PARTIAL, mutant) for _, mutant in mutants(REQUEST.matrix_scores)]
    assert wrong
    assert not any(verdict.holds for verdict in wrong)
    assert all("stores" in verdict.witness for verdict in wrong)


@pytest.mark.parametrize(("layout", "dim"), [(REQUEST.matrix_scores, None), (QUERY, "dim1"), (KEY, "dim1")])
def test_a_wrong_basis_of_the_group_is_refuted(layout, dim):
    assert shared_out("x", layout, dim, 2).holds
    last = layout.domain.bits - 1
    found = [shared_out("x", mutant, dim, 2) for bit, mutant in mutants(layout) if bit == last]
    assert found
    assert not any(verdict.holds for verdict in found)
    assert all(verdict.basis.startswith("warp") for verdict in found)


def test_a_basis_beyond_a_part_is_refuted():
    register = [QUERY.columns[-1], *QUERY.columns[1:]]
    assert not shared_out("x", replace(QUERY, columns=tuple(register)), "dim1", 2).holds


@pytest.mark.parametrize("side", ["Q", "K"])
def test_columns_that_are_summed_twice_are_refuted(side):
    assert sums_columns("all", QUERY, KEY, 128, 2).holds
    layout = QUERY if side == "Q" else KEY
    columns = list(layout.columns)
    # The second warp takes the second k-step of the first.
    columns[-1] = columns[layout.columns.index(layout.columns[-1] >> 1)]
    wrong = replace(layout, columns=tuple(columns))
    both = (wrong, KEY) if side == "Q" else (QUERY, wrong)
    assert not sums_columns("all", *both, 128, 2).holds
    assert not sums_columns("all", wrong, wrong, 128, 2).holds


def test_a_part_that_is_not_fetched_whole_is_refuted():
    wide = replace(QUERY, columns=tuple(c if c != 4 else 0 for c in QUERY.columns))
    verdict = sums_columns("all", wide, KEY, 128, 2)
    assert not verdict.holds
    assert "of 128 columns of Q are taken" in verdict.witness
