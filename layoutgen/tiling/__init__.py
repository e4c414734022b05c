"""From an atom to the layouts of a block: quadpair arrangement, repeats, warps, relabelling."""

from layoutgen.tiling.relabelling import Relabelling
from layoutgen.tiling.tile import Tiling, derive
from layoutgen.tiling.unit import Unit, arrange

__all__ = ["Relabelling", "Tiling", "Unit", "arrange", "derive"]
