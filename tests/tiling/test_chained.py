"""The second product of a chain: executed lane by lane from the atoms' tables, and wrong layouts refuted."""

from dataclasses import replace

import numpy as np
import pytest

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import atom
from layoutgen.errors import LayoutgenError
from layoutgen.proofs import refutations
from layoutgen.proofs.chained import cut_into_steps, prove_chain
from layoutgen.tiling import derive
from layoutgen.tiling.chained import Chain, vector_columns
from layoutgen.tiling.tile import hardware_order

LANES = 32


def chain(block_m=32, block_n=32, part=64, warps=1):
    scores = derive(atom("m8n8k4"), block_m, block_n, (warps, 1), "m2,n2")
    output = derive(atom("m8n8k4.row.row"), block_m, part, (warps, 1), "m2,n3")
    return Chain(scores, vector_columns(output, 8))


def quadpair_product(accumulators, operand_a, operand_b):
    """One m8n8k4.row.row from the ISA's formulas: lane = a0 + 2 a1 + 4 q + 16 b; all arrays are [lane, register]."""
    lanes = np.arange(LANES)
    thread, pair = (lanes & 3) + (lanes >> 4) * 4, lanes >> 2 & 3
    a, b = np.zeros((4, 8, 4)), np.zeros((4, 4, 8))
    for i in range(4):
        a[pair, thread, i] = operand_a[:, i]
        b[pair, lanes & 3, i + 4 * (lanes >> 4)] = operand_b[:, i]
    product = a @ b
    for v in range(8):
        row = (lanes & 1) + 2 * (v >> 1 & 1) + 4 * (lanes >> 4)
        column = (v & 1) + (lanes & 2) + 4 * (v >> 2)
        accumulators[:, v] += product[pair, row, column]


@pytest.mark.parametrize("part", [16, 32, 128])
@pytest.mark.parametrize("block_n", [16, 32, 64])
def test_the_instructions_compute_the_product(block_n, part):
    """Oracle: P @ V of random integers, with registers filled and moved as the layouts say."""
    link = chain(block_n=block_n, part=part)
    rng = np.random.default_rng(part + block_n)
    p, v = rng.integers(-4, 5, (32, block_n)), rng.integers(-4, 5, (block_n, part))
    column_bit, key_bit = link.flip
    row = np.arange(block_n)[:, None] ^ (np.arange(part)[None, :] >> column_bit & 1) << key_bit
    buffer = v[row, np.arange(part)]

    def held(layout, matrix):
        registers = 1 << layout.domain.bits_of("register")
        rows, columns = np.divmod(layout.table(), layout.shape[1])
        return matrix[rows, columns].reshape(LANES, registers)

    own = held(link.weights, p)
    other = own[np.arange(LANES) ^ link.gathered[1]]
    registers = hardware_order(link.first.unit, 32, block_n, (1, 1))["register"]
    out = np.zeros((LANES, 1 << link.second.accumulator.domain.bits_of("register")))
    repeats = hardware_order(link.second.unit, 32, part, (1, 1))["register"]
    for group in range(block_n // link.group):
        for side, weights in enumerate((own, other)):
            fetched = held(link.fetched, buffer[group * link.group + side * link.k :][: link.k])
            for chunk in range(out.shape[1] // 8):
                bits = {name: chunk >> position & 1 for position, name in enumerate(repeats[3:])}
                # v2 and the nb of P count the groups; its mb is that of the chunk.
                group_bits = [name for name in registers if name == "v2" or name.startswith("nb")]
                at = sum((group >> i & 1) << registers.index(name) for i, name in enumerate(group_bits))
                at += bits["mb0"] << registers.index("mb0")
                quadpair_product(out[:, 8 * chunk : 8 * chunk + 8], weights[:, at : at + 4], fetched[:, 8 * chunk :])
    assert np.array_equal(out, held(link.second.accumulator, p @ v))


def proofs(link, *, accumulator=None, weights=None, fetched=None):
    return prove_chain(
        link,
        accumulator or link.second.accumulator,
        weights or link.weights,
        fetched or link.fetched,
        ("O", "P", "V"),
        2,
    )


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("part", [16, 64])
def test_every_obligation_of_a_derived_chain_holds(part, warps):
    verdicts = proofs(chain(block_m=32 * warps, part=part, warps=warps))
    assert refutations(verdicts) == ()
    assert any("lane1 with register1" in fact for verdict in verdicts for fact in verdict.facts)


def swapped(layout, first, second):
    columns = list(layout.columns)
    columns[first], columns[second] = columns[second], columns[first]
    return replace(layout, columns=tuple(columns))


@pytest.mark.parametrize("which", ["accumulator", "weights", "fetched"])
def test_every_exchange_of_two_bases_is_refuted(which):
    """Bases that are alike may trade places; nothing else may, unless the product stays the same under both names."""
    link = chain()
    layout = {
        "accumulator": link.second.accumulator,
        "weights": link.weights,
        "fetched": link.fetched,
    }[which]
    for first in range(layout.domain.bits):
        for second in range(first):
            wrong = swapped(layout, first, second)
            if wrong == layout:
                continue
            found = refutations(proofs(link, **{which: wrong}))
            assert found, f"{which}: bases {second} and {first}"


def test_an_order_of_keys_that_ignores_the_columns_is_refuted():
    link = chain()
    straight = replace(link)
    object.__setattr__(straight, "flip", (5, 2))  # the key order is turned over by another column bit
    assert any("holds key" in verdict.witness for verdict in refutations(proofs(straight)))


def test_arrangements_that_no_exchange_joins_are_refused():
    scores = derive(atom("m8n8k4"), 32, 32, (1, 1), "m3,n3")
    output = derive(atom("m8n8k4.row.row"), 32, 64, (1, 1), "m3,n3")
    with pytest.raises(LayoutgenError, match="must be the key bit above the 4 keys of a step"):
        Chain(scores, output)


def test_a_fetched_vector_with_its_steps_exchanged_is_refuted():
    fragment = LinearLayout.from_bases({"register": [[0, 1], [0, 2]], "lane": [[1, 0]]}, (2, 4))
    fetched = LinearLayout.from_bases({"register": [[0, 1], [0, 2], [0, 4]], "lane": [[1, 0]]}, (2, 8))
    assert cut_into_steps("Q", fetched, fragment, 4).holds
    wrong = cut_into_steps("Q", swapped(fetched, 1, 2), fragment, 4)
    assert not wrong.holds
    assert wrong.witness == "register 2 holds (0, 4); wanted is (0, 2)"
