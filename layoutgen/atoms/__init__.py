"""The catalogue of atoms: tensor-core instructions as data."""

from layoutgen.atoms.atom import DTYPE_BYTES, Atom, Fragment
from layoutgen.atoms.sm70 import SM70_8x8x4_F32F16F16F32_TN
from layoutgen.errors import LayoutgenError

CATALOGUE: tuple[Atom, ...] = (SM70_8x8x4_F32F16F16F32_TN,)

__all__ = ["CATALOGUE", "DTYPE_BYTES", "Atom", "Fragment", "atom"]


def atom(name: str) -> Atom:
    """Return the atom of the catalogue with this name or alias.

    >>> atom("m8n8k4").shape
    (8, 8, 4)
    """
    for candidate in CATALOGUE:
        if name in (candidate.name, candidate.alias):
            return candidate
    known = ", ".join(f"{candidate.alias} ({candidate.name})" for candidate in CATALOGUE)
    raise LayoutgenError(f"atom {name}: not in the catalogue, which holds {known}")
