"""Hardware profiles (YAML) and the choice of the matrix unit."""

from layoutgen.profiles.feasibility import check_compiled, check_feasible
from layoutgen.profiles.profile import (
    DEFAULT,
    FlashTile,
    Limits,
    MatmulTile,
    MatrixUnit,
    Profile,
    load_profile,
    matrix_unit,
    matrix_unit_flash_tile,
    profile_names,
)

__all__ = [
    "DEFAULT",
    "FlashTile",
    "Limits",
    "MatmulTile",
    "MatrixUnit",
    "Profile",
    "check_compiled",
    "check_feasible",
    "load_profile",
    "matrix_unit",
    "matrix_unit_flash_tile",
    "profile_names",
]
