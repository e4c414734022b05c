"""The proofs of words and fetches hold for what is derived, and name the basis where a layout is wrong."""

from dataclasses import replace

import pytest

from layoutgen.algebra import LinearLayout
from layoutgen.kernels import FastMatmulRequest
from layoutgen.proofs import Refutation, refutations
from layoutgen.proofs.words import fetched, pairs, prove_words

ORDERS = [(a, b) for a in ("mk", "km") for b in ("kn", "nk")]


def request(a_order="mk", b_order="kn"):
    return FastMatmulRequest("m8n8k4", 64, 64, 32, (1, 2), a_order=a_order, b_order=b_order)


def swapped(layout, first, second):
    columns = list(layout.columns)
    columns[first], columns[second] = columns[second], columns[first]
    return LinearLayout(layout.domain, layout.codomain, tuple(columns))


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
def test_what_is_derived_is_proved(a_order, b_order):
    made = request(a_order, b_order)
    assert refutations(made.proofs) == ()
    assert {verdict.obligation.claim for verdict in made.proofs} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
def test_a_swapped_accumulator_is_refuted(a_order, b_order):
    words = request(a_order, b_order).words
    wrong = replace(words.tiling, accumulator=swapped(words.tiling.accumulator, 0, 1))
    assert refutations(prove_words(replace(words, tiling=wrong)))


def test_words_of_other_elements_are_refuted():
    words = request().words
    verdict = pairs("words_a", words.tiling.fragment_a, swapped(words.fragment("a"), 1, 8))
    assert isinstance(verdict, Refutation)
    assert verdict.basis == "register1"
    assert "register 2 holds" in verdict.witness


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
@pytest.mark.parametrize("operand", ["a", "b"])
def test_every_swap_of_a_fetch_is_refuted(a_order, b_order, operand):
    way = request(a_order, b_order).operands[operand]
    places = way.staging.into_buffer(way.fetch)
    assert fetched("x", places, way.staging.buffer, way.wanted).holds
    for bit, other in ((0, 1), (1, 2), (2, places.domain.bits_of("register"))):
        verdict = fetched("x", swapped(places, bit, other), way.staging.buffer, way.wanted)
        assert isinstance(verdict, Refutation)
        assert "gets" in verdict.witness
