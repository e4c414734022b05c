"""The catalogue of atoms: tensor-core instructions as data."""

from layoutgen.atoms import sm70, sm75, sm80
from layoutgen.atoms.atom import DTYPE_BYTES, Atom, Fragment
from layoutgen.atoms.reading import atom_from_table, read_atom
from layoutgen.errors import LayoutgenError

CATALOGUE: tuple[Atom, ...] = (*sm70.ATOMS, *sm75.ATOMS, *sm80.ATOMS)

__all__ = ["CATALOGUE", "DTYPE_BYTES", "Atom", "Fragment", "atom", "atom_from_table", "read_atom"]


def atom(name: str) -> Atom:
    """Return the atom of the catalogue with this name or alias, or the one that a .yml file describes.

    >>> atom("m8n8k4").shape
    (8, 8, 4)
    """
    if name.endswith((".yml", ".yaml")):
        return read_atom(name)
    for candidate in CATALOGUE:
        if name in (candidate.name, candidate.alias):
            return candidate
    known = ", ".join(candidate.alias for candidate in CATALOGUE)
    raise LayoutgenError(f"atom {name}: not in the catalogue, which holds {known}; or name a .yml file")
