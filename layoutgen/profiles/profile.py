"""Hardware profiles: a card's limits, and the matrix unit that kernels for it are built from."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from layoutgen.atoms import Atom, atom
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.matmul_fast import ACCUMULATE
from layoutgen.kernels.request import parse_warps

FOLDER = Path(__file__).parent
DEFAULT = (FOLDER / "default.txt").read_text(encoding="utf-8").strip()
"""The profile of requests that name none. A file names it: no code names a card."""


@dataclass(frozen=True)
class Limits:
    """What a card allows: registers of 32 bits, shared memory in bytes, warps, SMs."""

    registers_per_sm: int
    registers_per_thread: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    warps_per_sm: int
    warps_per_block: int
    sms: int


@dataclass(frozen=True)
class FlashTile:
    """The attention tile for head dims up to `head_dim_le`."""

    head_dim_le: int
    block_m: int
    block_n: int


@dataclass(frozen=True)
class ShortFlashTile:
    """The tile of fast attention for head dims up to `head_dim_le` and launches of up to `queries_le` queries."""

    head_dim_le: int
    queries_le: int
    block_m: int
    block_n: int
    row_blocks: int


@dataclass(frozen=True)
class MatmulTile:
    """The matmul tile."""

    block_m: int
    block_n: int
    block_k: int
    warps: tuple[int, int]


@dataclass(frozen=True)
class FastMatmulTile:
    """A tile of the fast matmul design, for one way of summing over K.

    `tflops` is what the model predicts of its loop on the whole card at the reference clock, with one block on every
    SM, with two, and so on up to as many as an SM holds.
    """

    block_m: int
    block_n: int
    block_k: int
    warps: tuple[int, int]
    accumulate: str
    tflops: tuple[float, ...]
    warps_km: tuple[int, int] | None = None
    """The warps for A [K, M], where they are others than for A [M, K]."""


FLASH = ("flash", "flash_fast", "flash_fast_bias")
"""The lists of attention tiles of a profile."""
CLOCKS = ("boost", "reference")
KEYS = ("name", "arch", "limits", "clocks_mhz", "matrix_unit", "memory_gb_per_s", "model", "tuned")
UNIT_KEYS = ("shape", "operand_dtype", "accumulator_dtype", *FLASH, "flash_fast_short", "matmul", "matmul_fast")
"""What a profile and its matrix unit can say."""


@dataclass(frozen=True)
class MatrixUnit:
    """The instruction that a card's kernels use, and their tiles."""

    atom: Atom
    flash: tuple[FlashTile, ...]
    flash_fast: tuple[FlashTile, ...]
    flash_fast_bias: tuple[FlashTile, ...]
    flash_fast_short: tuple[ShortFlashTile, ...]
    matmul: tuple[MatmulTile, ...]
    matmul_fast: tuple[FastMatmulTile, ...]


@dataclass(frozen=True)
class Profile:
    """One card: name, architecture it compiles for, limits, clocks in MHz, and its matrix unit if it has one.

    `memory_gb_per_s` is the peak rate of its memory; None where it is not known.
    """

    name: str
    arch: str
    limits: Limits
    clocks_mhz: Mapping[str, int]
    unit: MatrixUnit | None
    memory_gb_per_s: int | None = None

    def clock(self, chosen: int | None = None) -> int:
        """Return the clock of a prediction in MHz: the one chosen, else the reference clock, else the boost clock.

        Raises LayoutgenError when none is chosen and the profile has neither.
        """
        found = chosen or self.clocks_mhz.get("reference") or self.clocks_mhz.get("boost")
        if found is None:
            raise LayoutgenError(
                f"profile {self.name}: has no clock to predict for; choose one, for example 1290 MHz, or give the "
                "profile clocks_mhz with reference or boost"
            )
        return found


def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that ship with the library.

    >>> "volta" in profile_names()
    True
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*/*.yml")))


def read_profile(name: str) -> dict[str, Any]:
    """Return the data of a profile, by its name or by the path of a YAML file of the same form.

    Raises LayoutgenError when there is none.
    """
    path = Path(name) if name.endswith((".yml", ".yaml")) else next(FOLDER.glob(f"*/{name}.yml"), None)
    if path is None:
        raise LayoutgenError(
            f"profile {name}: unknown; known are {', '.join(profile_names())}, or the path of a .yml file"
        )
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LayoutgenError(f"profile {name}: {(error.strerror or str(error)).lower()}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LayoutgenError(f"profile {name}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, Mapping):
        raise LayoutgenError(f"profile {name}: must be a mapping with name, arch and limits")
    return dict(data)


@cache
def load_profile(name: str) -> Profile:
    """Return a profile by its name, or by the path of a YAML file of the same form.

    Raises LayoutgenError when there is none, or when it declares what the instruction does not compute in.
    """
    return parse_profile(read_profile(name), name)


def parse_profile(data: Mapping[str, Any], name: str) -> Profile:
    """Return the profile that plain data describe; `name` is for the messages."""
    _known(data, KEYS, f"profile {name}")
    for key in ("name", "arch"):
        if not isinstance(_get(data, key, name), str):
            raise LayoutgenError(f"profile {name}: {key} is {data[key]!r}; a text is needed")
    unit, rate = data.get("matrix_unit"), data.get("memory_gb_per_s")
    if rate is not None and (not isinstance(rate, int) or isinstance(rate, bool) or rate < 1):
        raise LayoutgenError(f"profile {name}: memory_gb_per_s is {rate!r}; a positive integer is needed")
    return Profile(
        name=str(_get(data, "name", name)),
        arch=str(_get(data, "arch", name)),
        limits=_fields(Limits, _get(data, "limits", name), f"profile {name}: limits"),
        clocks_mhz=_clocks(data.get("clocks_mhz") or {}, name),
        unit=None if unit is None else _parse_unit(unit, name),
        memory_gb_per_s=rate,
    )


def _clocks(data: Any, name: str) -> dict[str, int]:
    if not isinstance(data, Mapping) or not all(isinstance(value, int) and value > 0 for value in data.values()):
        raise LayoutgenError(f"profile {name}: clocks_mhz must map names to positive integers, in MHz")
    _known(data, CLOCKS, f"profile {name}: clocks_mhz")
    return dict(data)


def _known(data: Any, known: Sequence[str], where: str) -> None:
    """Refuse a key that nothing reads: it is a mistake, and what it was meant to say would be missing."""
    for key in data if isinstance(data, Mapping) else ():
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            raise LayoutgenError(f"{where}: knows no {key}; " + (f"is {near[0]} meant?" if near else ", ".join(known)))


def _get(data: Mapping[str, Any], key: str, name: str) -> Any:
    if not isinstance(data, Mapping) or key not in data:
        raise LayoutgenError(f"profile {name}: has no {key}")
    return data[key]


def _fields(cls: type[Any], data: Any, where: str) -> Any:
    names = list(cls.__dataclass_fields__)
    if not isinstance(data, Mapping) or set(data) != set(names):
        raise LayoutgenError(f"{where}: must be exactly {', '.join(names)}")
    values = {key: parse_warps(str(value)) if key == "warps" else value for key, value in data.items()}
    for key, value in values.items():
        if key != "warps" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise LayoutgenError(f"{where}: {key} is {value!r}; a positive integer is needed")
    return cls(**values)


def _parse_unit(data: Any, name: str) -> MatrixUnit:
    _known(data, UNIT_KEYS, f"profile {name}: matrix_unit")
    found = atom(str(_get(data, "shape", name)))
    for key, have in (("operand_dtype", found.operand_dtype), ("accumulator_dtype", found.accumulator.dtype)):
        declared = _get(data, key, name)
        if declared != have:
            raise LayoutgenError(f"profile {name}: {key} is {declared}; {found.alias} computes in {have}")
    tiles: dict[str, list[Any]] = {}
    kinds = {**dict.fromkeys(FLASH, FlashTile), "flash_fast_short": ShortFlashTile, "matmul": MatmulTile}
    for key, cls in kinds.items():
        listed = data.get(key) or []
        if not isinstance(listed, list):
            raise LayoutgenError(f"profile {name}: {key} must be a list of tiles")
        tiles[key] = [_fields(cls, tile, f"profile {name}: {key}[{i}]") for i, tile in enumerate(listed)]
    flash, fast, biased = (tuple(sorted(tiles[key], key=lambda tile: tile.head_dim_le)) for key in FLASH)
    listed = data.get("matmul_fast") or []
    if not isinstance(listed, list):
        raise LayoutgenError(f"profile {name}: matmul_fast must be a list of tiles")
    quick = tuple(_fast_tile(tile, f"profile {name}: matmul_fast[{i}]") for i, tile in enumerate(listed))
    short = tuple(sorted(tiles["flash_fast_short"], key=lambda tile: (tile.queries_le, tile.head_dim_le)))
    return MatrixUnit(found, flash, fast, biased, short, tuple(tiles["matmul"]), quick)


def _fast_tile(data: Any, where: str) -> FastMatmulTile:
    own = ("accumulate", "tflops", "warps_km")
    needed = [name for name in FastMatmulTile.__dataclass_fields__ if name != "warps_km"]
    if not isinstance(data, Mapping) or set(data) - {"warps_km"} != set(needed):
        raise LayoutgenError(f"{where}: must be {', '.join(needed)}, and may be warps_km")
    plain = _fields(MatmulTile, {key: value for key, value in data.items() if key not in own}, where)
    if not isinstance(data["accumulate"], str) or data["accumulate"] not in ACCUMULATE:
        raise LayoutgenError(f"{where}: accumulate is {data['accumulate']!r}; it is one of {', '.join(ACCUMULATE)}")
    rates = data["tflops"]
    if not isinstance(rates, list) or not rates or not all(isinstance(r, int | float) and r > 0 for r in rates):
        raise LayoutgenError(
            f"{where}: tflops is {rates!r}; positive numbers are needed, for one block on an SM and up"
        )
    transposed = None
    if "warps_km" in data:
        transposed = _fields(MatmulTile, {**vars(plain), "warps": data["warps_km"]}, where).warps
    return FastMatmulTile(
        **vars(plain), accumulate=data["accumulate"], tflops=tuple(map(float, rates)), warps_km=transposed
    )


def matrix_unit(profile: str | Profile) -> MatrixUnit | None:
    """Return the matrix unit of a profile, or None: then the caller keeps its tl.dot kernel.

    >>> unit = matrix_unit("volta")
    >>> unit.atom.alias if unit else None
    'm8n8k4'
    """
    return (load_profile(profile) if isinstance(profile, str) else profile).unit


def unit_of(profile: str) -> MatrixUnit:
    """Return the matrix unit of a profile that must have one."""
    unit = load_profile(profile).unit
    if unit is None:
        raise LayoutgenError(
            f"profile {profile}: has no matrix unit; keep the tl.dot kernel, or name a profile that has one"
        )
    return unit


def matrix_unit_flash_tile(
    profile: str | Profile, head_dim: int, design: str = "simple", bias: bool = False
) -> FlashTile | None:
    """Return the attention tile for a head dim, or None when the profile has no unit or no tile for it.

    The fast design has tiles of its own, and where a profile says so others again with a `bias`, which takes registers;
    so does a mask, for which they serve as well.

    >>> tile = matrix_unit_flash_tile("volta", 96)
    >>> (tile.block_m, tile.block_n) if tile else None
    (64, 32)
    """
    unit = matrix_unit(profile)
    if unit is None:
        return None
    tiles = unit.flash
    if design == "fast":
        tiles = (unit.flash_fast_bias if bias else ()) or unit.flash_fast
    return next((tile for tile in tiles if head_dim <= tile.head_dim_le), None)


def short_flash_tile(profile: str | Profile, head_dim: int, queries: int) -> ShortFlashTile | None:
    """Return the tile of fast attention for launches of up to `queries` queries; None where the usual one serves.

    Of a tile with more rows than there are queries, the others are computed for nothing.

    >>> tile = short_flash_tile("volta", 64, 50)
    >>> (tile.block_m, tile.block_n) if tile else None
    (64, 64)
    """
    unit = matrix_unit(profile)
    tiles = unit.flash_fast_short if unit else ()
    return next((t for t in tiles if queries <= t.queries_le and head_dim <= t.head_dim_le), None)
