"""A plan refuses edges that do not fit, and its counts are what the kernel must do."""

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError, RefutedError
from layoutgen.plan import Move, Plan, Tile
from layoutgen.proofs import Obligation, Refutation

GLOBAL = Tile("a", "global", (16, 4), "float16")
LOADED = Tile("a_loaded", "register", (16, 4), "float16")
SHARED = Tile("a_shared", "shared", (16, 4), "float16")


def plan(tiles, moves):
    return Plan("test", tuple(tiles), tuple(moves), ())


def test_a_chain_of_moves():
    value = plan([GLOBAL, LOADED, SHARED], [Move("a", "a_loaded", "load"), Move("a_loaded", "a_shared", "stage")])
    assert value.shared_bytes == 128
    assert value.tile("a").bytes == 128
    assert list(value.graph.successors("a")) == ["a_loaded"]


@pytest.mark.parametrize(
    ("tiles", "moves", "message"),
    [
        ([GLOBAL, GLOBAL], [], "same name"),
        ([GLOBAL], [Move("a", "b", "load")], "no tile b"),
        ([GLOBAL, SHARED], [Move("a", "a_shared", "load")], "load leads from global to register"),
        ([GLOBAL, LOADED], [], "nothing produces tile a_loaded"),
        (
            [GLOBAL, LOADED, SHARED],
            [
                Move("a", "a_loaded", "load"),
                Move("a_shared", "a_loaded", "fetch"),
                Move("a_loaded", "a_shared", "stage"),
            ],
            "nothing produces tile a_loaded before it is used",
        ),
        ([GLOBAL, Tile("x", "register", (16, 8), "float16")], [Move("a", "x", "load")], "64 x float16 do not fill 128"),
        ([GLOBAL, Tile("x", "register", (16, 4), "float32")], [Move("a", "x", "load")], "do not fill 64 x float32"),
    ],
)
def test_edges_that_do_not_fit(tiles, moves, message):
    with pytest.raises(LayoutgenError, match=message):
        plan(tiles, moves)


def test_a_refuted_obligation_ends_the_plan():
    refuted = Refutation(Obligation("accumulator", 1, "is a bijection"), "rank", "register2", "register 4 holds (0, 0)")
    with pytest.raises(RefutedError, match="refuted at basis register2"):
        Plan("test", (GLOBAL,), (), (refuted,))


def test_a_space_that_there_is_not():
    with pytest.raises(LayoutgenError, match="tile x: space 'nowhere': must be one of global, shared, register"):
        Tile("x", "nowhere", (16, 4), "float16")


def test_unknown_tile():
    with pytest.raises(LayoutgenError, match="no tile x"):
        plan([GLOBAL], []).tile("x")


def test_counts_of_the_default_attention():
    """S takes 24 k-steps x 2 instructions, O 8 x 6; four STEPs each make the 384 HMMA of the loop."""
    value = lg.attention(head_dim=96).plan
    assert value.instructions == 24 * 2 + 8 * 6
    assert 4 * value.instructions == 384
    assert value.shared_bytes == 2 * (64 * 96 + 2 * 32 * 96 + 64 * 32)
    assert value.accumulator_registers == 16 + 48
    # docs/facts.md: each fragment of A costs 2 wavefronts, of B 2 per 16 columns; P is stored in 16 where 8 suffice.
    assert value.wavefronts("fetch") == 24 * (2 + 4) + 8 * (2 + 8) + 8 * (2 + 4)
    assert "output1" in value.graph
    assert "wavefronts" in str(value)


def test_counts_of_the_default_matmul():
    value = lg.matmul().plan
    assert 4 * value.instructions == 512
    assert value.accumulator_registers == 128
