"""What an atom's table must not say."""

from dataclasses import replace

import pytest

from layoutgen.atoms import Atom, Fragment, atom
from layoutgen.errors import LayoutgenError

GOOD = atom("m8n8k4")


def rows(operand: str, **changes: str) -> Fragment:
    fragment = GOOD.fragment(operand)
    return replace(fragment, rows=tuple((name, changes.get(name, row)) for name, row in fragment.rows))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lane": "a0 a1 q0 q1"}, "4 lane bits; a warp has 5"),
        ({"a": rows("a", m="a0 a1")}, "m of a has 2 bits; a size of 8 needs 3"),
        ({"a": rows("a", m="a0 a1 x")}, "m of a names x, which is neither a lane bit .* nor a register bit"),
        ({"a": rows("a", m="a0 a1 a0")}, r"a reaches 2\^4 of its 32 elements"),
        ({"b": rows("b", k="i0 i0")}, r"b reaches 2\^4 of its 32 elements"),
        ({"shape": (8, 8, 3)}, "k = 3: must be a power of two"),
        ({"b": replace(GOOD.b, rows=GOOD.a.rows)}, r"b has coordinates \('m', 'k'\), not \('n', 'k'\)"),
        ({"b": replace(GOOD.b, dtype="bfloat16")}, "operands of float16 and bfloat16; both must be the same"),
        (
            {"accumulator": replace(GOOD.accumulator, registers="v0 v1 v2 v3")},
            "an accumulator element has more than one owner",
        ),
    ],
)
def test_each_invariant_fires(changes: dict[str, object], message: str) -> None:
    with pytest.raises(LayoutgenError, match=message):
        replace(GOOD, **changes)  # type: ignore[arg-type]


def test_unknown_names() -> None:
    with pytest.raises(LayoutgenError, match=r"atom m8n8k8: not in the catalogue, which holds m8n8k4"):
        atom("m8n8k8")
    with pytest.raises(LayoutgenError, match="operand d: an atom has a, b and accumulator"):
        GOOD.fragment("d")
    with pytest.raises(LayoutgenError, match="has no coordinate n; it has m, k"):
        GOOD.a.formula("n")


def test_both_names_find_the_atom() -> None:
    assert atom("m8n8k4") is atom("SM70_8x8x4_F32F16F16F32_TN")
    assert isinstance(GOOD, Atom)
    assert GOOD.free_lane_bits == ("q0", "q1")
