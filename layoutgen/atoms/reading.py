"""Atoms from a user's own table: a mapping in Python, or the same in a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from layoutgen.atoms.atom import DTYPE_BYTES, Atom, Fragment
from layoutgen.errors import LayoutgenError

COORDINATES = {"a": ("m", "k"), "b": ("n", "k"), "accumulator": ("m", "n")}
REQUIRED = ("name", "instruction", "shape", "lane", *COORDINATES)
OPTIONAL = ("alias", "arrangement", "native", "source")


def atom_from_table(table: Mapping[str, Any]) -> Atom:
    """Return the atom that a table describes, with all its invariants checked.

    `shape` is [m, n, k]; `lane` names the five lane bits, low first; each operand has `registers` (the bits of the
    element index, low first), `dtype`, and the formula of each of its two coordinates, as in the library's own tables.
    Without an `arrangement`, free lane bits go to rows and columns in turn, above the atom's own bits.

    >>> dot = atom_from_table({
    ...     "name": "DOT_8x4x4", "instruction": "mma.dot", "shape": [8, 4, 4], "lane": "a b c d e",
    ...     "a": {"registers": "i", "dtype": "float16", "m": "a b c", "k": "i d"},
    ...     "b": {"registers": "i", "dtype": "float16", "n": "a b", "k": "i d"},
    ...     "accumulator": {"registers": "v", "dtype": "float32", "m": "a b c", "n": "v d"},
    ... })
    >>> dot.free_lane_bits, dot.arrangement
    (('e',), 'm3')
    """
    if not isinstance(table, Mapping):
        raise LayoutgenError(f"atom table: is {type(table).__name__}, not a mapping with {', '.join(REQUIRED)}")
    name = table.get("name", "?")
    missing = [key for key in REQUIRED if key not in table]
    if missing:
        raise LayoutgenError(f"atom {name}: its table has no {missing[0]}; it needs {', '.join(REQUIRED)}")
    unknown = [key for key in table if key not in (*REQUIRED, *OPTIONAL)]
    if unknown:
        raise LayoutgenError(
            f"atom {name}: its table has {unknown[0]!r}; known are {', '.join((*REQUIRED, *OPTIONAL))}"
        )
    shape = table["shape"]
    if not isinstance(shape, (list, tuple)) or len(shape) != 3 or not all(isinstance(size, int) for size in shape):
        raise LayoutgenError(f"atom {name}: shape {shape!r}: must be three integers, for example [8, 8, 4]")
    m, n, k = shape
    fragments = {operand: _fragment(str(name), operand, table[operand]) for operand in COORDINATES}
    atom = Atom(
        name=str(name),
        alias=str(table.get("alias", name)),
        instruction=str(table["instruction"]),
        shape=(m, n, k),
        lane=str(table["lane"]),
        a=fragments["a"],
        b=fragments["b"],
        accumulator=fragments["accumulator"],
        arrangement=str(table.get("arrangement", "")),
        native=tuple(str(arch) for arch in table.get("native", ())),
        source=str(table.get("source", "a user's table")),
    )
    return atom if "arrangement" in table else _arranged(atom)


def _arranged(atom: Atom) -> Atom:
    """Place free lane bits on rows and columns in turn."""
    bits = {"m": atom.shape[0].bit_length() - 1, "n": atom.shape[1].bit_length() - 1}
    places = []
    for index, _ in enumerate(atom.free_lane_bits):
        axis = "mn"[index % 2]
        places.append(f"{axis}{bits[axis]}")
        bits[axis] += 1
    return replace(atom, arrangement=",".join(places))


def _fragment(name: str, operand: str, table: Any) -> Fragment:
    first, second = COORDINATES[operand]
    needed = ("registers", "dtype", first, second)
    if not isinstance(table, Mapping) or sorted(map(str, table)) != sorted(needed):
        raise LayoutgenError(f"atom {name}: {operand} must have exactly {', '.join(needed)}")
    dtype = str(table["dtype"])
    if dtype not in DTYPE_BYTES:
        raise LayoutgenError(f"atom {name}: {operand} is of {dtype!r}; known are {', '.join(DTYPE_BYTES)}")
    rows = tuple((coordinate, str(table[coordinate])) for coordinate in (first, second))
    return Fragment(registers=str(table["registers"]), rows=rows, dtype=dtype)


def read_atom(path: Path | str) -> Atom:
    """Return the atom of a YAML file. Raises LayoutgenError when it is missing or malformed."""
    import yaml

    try:
        table = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise LayoutgenError(f"{path}: {(error.strerror or str(error)).lower()}; name a YAML file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LayoutgenError(f"{path}: not YAML: {str(error).splitlines()[0]}") from error
    return atom_from_table(table)
