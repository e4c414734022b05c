"""Atoms from a user's table get the same checks, layouts and proofs as the library's own."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from layoutgen.atoms import Atom, atom, atom_from_table, read_atom
from layoutgen.errors import LayoutgenError
from layoutgen.proofs import prove, require
from layoutgen.tiling import derive


def table_of(found: Atom) -> dict[str, Any]:
    """Return an atom as a user would write it."""
    table: dict[str, Any] = {
        "name": found.name,
        "alias": found.alias,
        "instruction": found.instruction,
        "shape": list(found.shape),
        "lane": found.lane,
        "arrangement": found.arrangement,
        "native": list(found.native),
        "source": found.source,
    }
    for operand in ("a", "b", "accumulator"):
        fragment = found.fragment(operand)
        table[operand] = {"registers": fragment.registers, "dtype": fragment.dtype, **dict(fragment.rows)}
    return table


GOOD = table_of(atom("m8n8k4"))


@pytest.mark.parametrize("name", ["m8n8k4", "m8n8k4.col.row.f16", "m16n8k8", "m16n8k16.bf16"])
def test_a_table_of_a_known_atom_gives_that_atom(name: str, tmp_path: Path) -> None:
    found = atom(name)
    assert atom_from_table(table_of(found)) == found
    path = tmp_path / "atom.yml"
    path.write_text(yaml.safe_dump(table_of(found)))
    assert read_atom(path) == found
    assert atom(str(path)) == found


NEW = """
name: WIDE_8x16x4
instruction: mma.wide
shape: [8, 16, 4]
lane: a0 a1 q0 q1 b
a: {registers: i0 i1, dtype: bfloat16, m: a0 a1 b, k: i0 i1}
b: {registers: i0 i1 i2, dtype: bfloat16, n: a0 a1 b i2, k: i0 i1}
accumulator: {registers: v0 v1 v2 v3, dtype: float32, m: a0 v1 b, n: v0 a1 v2 v3}
"""


def test_a_new_atom_is_derived_and_proved(tmp_path: Path) -> None:
    path = tmp_path / "wide.yaml"
    path.write_text(NEW)
    wide = atom(str(path))
    assert (wide.alias, wide.arrangement, wide.free_lane_bits) == ("WIDE_8x16x4", "m3,n4", ("q0", "q1"))
    tiling = derive(wide, 32, 64, (2, 1))
    assert tiling.unit.shape == (16, 32, 4)
    require(prove(tiling))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lane": None}, "atom SM70_8x8x4_F32F16F16F32_TN: its table has no lane; it needs name, instruction"),
        ({"colour": "red"}, "its table has 'colour'; known are name, instruction"),
        ({"shape": [8, 8]}, r"shape \[8, 8\]: must be three integers"),
        ({"shape": "m8n8k4"}, "shape 'm8n8k4': must be three integers"),
        ({"a": {"registers": "i0 i1"}}, "a must have exactly registers, dtype, m, k"),
        ({"a": {**GOOD["a"], "dtype": "int4"}}, "a is of 'int4'; known are float16, bfloat16, float32"),
        ({"a": {**GOOD["a"], "m": "a0 a1"}}, "m of a has 2 bits; a size of 8 needs 3"),
    ],
)
def test_malformed_tables(changes: dict[str, Any], message: str) -> None:
    table = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    with pytest.raises(LayoutgenError, match=message):
        atom_from_table(table)


@pytest.mark.parametrize(
    ("text", "message"),
    [("- 1\n- 2\n", "atom table: is list, not a mapping"), ("a: [", "not YAML"), ("", "is NoneType, not a mapping")],
)
def test_malformed_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "atom.yml"
    path.write_text(text)
    with pytest.raises(LayoutgenError, match=message):
        atom(str(path))


def test_a_missing_file() -> None:
    with pytest.raises(LayoutgenError, match=r"nowhere.yml: no such file or directory; name a YAML file"):
        atom("nowhere.yml")
