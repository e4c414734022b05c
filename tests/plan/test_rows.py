"""Rows of whole vectors: the buffer is a bijection, stores and fetches are as wide as can be and free of conflicts."""

from itertools import product

import pytest

from layoutgen.algebra.banks import wavefronts
from layoutgen.kernels.attention_fast import FastAttentionRequest
from layoutgen.plan.rows import stage_rows
from layoutgen.proofs.staging import staged

SIZES = list(product((16, 32, 64, 128), (1, 2, 4)))


@pytest.mark.parametrize(("part", "warps"), SIZES)
@pytest.mark.parametrize("block_n", [16, 32, 64])
def test_no_access_has_a_conflict(part, warps, block_n):
    request = FastAttentionRequest(part, "m8n8k4", 32 * warps, block_n)
    fragments = {
        "query": request.query_fragment,
        "key": request.key_fragment,
        "value": request.chains[part].fetched,
    }
    for name, rows in request.stagings.items():
        assert staged(name, rows.stored, 2).holds
        assert rows.stored_access.conflict_free, name
        fetched = rows.fetched_access(fragments[name.rstrip("0")])
        assert fetched.conflict_free, name
        # Of a part of one unit's columns a thread holds only four neighbours.
        assert fetched.width_bytes == (8 if part == 16 and name == "value0" else 16)


def test_the_count_of_a_fetch_is_that_of_its_addresses():
    """Oracle: the byte address of every lane, through the buffer's own bases."""
    request = FastAttentionRequest(64, "m8n8k4", 128, 32)
    rows, fragment = request.stagings["key0"], request.key_fragment
    place = {rows.buffer((offset,)): offset for offset in range(rows.buffer.domain.size)}
    lanes = fragment.domain.bits_of("register")
    addresses = [2 * place[fragment.codomain.unpack(fragment.table()[lane << lanes])] for lane in range(32)]
    cost = rows.fetched_access(fragment)
    assert cost.wavefronts == cost.instructions * wavefronts(addresses, cost.width_bytes)


@pytest.mark.parametrize(("part", "block_n"), [(16, 64), (32, 64), (64, 32), (64, 64), (128, 32)])
def test_vectors_of_a_thread_lie_in_few_rows_and_whole_sectors(part, block_n):
    """One address serves the loads from a row; eight lanes together read whole sectors of 32 bytes."""
    request = FastAttentionRequest(part, "m8n8k4", 128, block_n)
    for kind, turn in (("key", None), ("value", request.chains[part].flip[0])):
        rows = request.stagings[f"{kind}0"]
        plain = stage_rows((block_n, part), request.fetched["key" if kind == "key" else f"value{part}"], 2, 4)
        assert rows.rows_held(turn) <= plain.rows_held(turn)
        layout, registers = rows.loaded, rows.loaded.domain.bits_of("register")
        held = {}
        for lane in range(8):
            for register in range(1 << min(3, registers)):
                row, column = layout.codomain.unpack(layout.table()[lane << registers | register])
                held.setdefault(row, set()).add(column)
        assert all(len({column // 16 for column in columns}) * 16 == len(columns) for columns in held.values())
    assert request.stagings["key0"].rows_held() == max(1, block_n // 64)
