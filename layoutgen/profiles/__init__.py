"""Hardware profiles (YAML) and the choice of the matrix unit."""

from layoutgen.profiles.feasibility import check_compiled, check_feasible
from layoutgen.profiles.matmul_tiles import Choice, choose_matmul, fast_matmul_tile, stored_as
from layoutgen.profiles.profile import (
    DEFAULT,
    FastMatmulTile,
    FlashTile,
    Limits,
    MatmulTile,
    MatrixUnit,
    Profile,
    load_profile,
    matrix_unit,
    matrix_unit_flash_tile,
    profile_names,
    short_flash_tile,
    unit_of,
)

__all__ = [
    "DEFAULT",
    "Choice",
    "FastMatmulTile",
    "FlashTile",
    "Limits",
    "MatmulTile",
    "MatrixUnit",
    "Profile",
    "check_compiled",
    "check_feasible",
    "choose_matmul",
    "fast_matmul_tile",
    "load_profile",
    "matrix_unit",
    "matrix_unit_flash_tile",
    "profile_names",
    "short_flash_tile",
    "stored_as",
    "unit_of",
]
