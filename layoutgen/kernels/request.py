"""What the requests of all kernel families share: checks and the launch of a kernel, described without arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from layoutgen.algebra.space import is_power_of_two, nearest_power_of_two
from layoutgen.atoms import Atom, atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling.tile import MAX_BLOCK

RequestKind = TypeVar("RequestKind")
STATISTICS_DTYPE = "float32"
"""What every kernel accumulates in."""
EXAMPLE_SIZES = {"Z": 1, "M": 4096, "N": 4096, "K": 1024, "B": 1, "H": 8, "Hkv": 8, "Tq": 1024, "Tk": 1024, "D": 64}
"""A launch to give as an example, by the letters of its sizes."""
MAX_SIZE = 2**63 - 1
"""What an argument of a launch can be at most."""


@dataclass(frozen=True)
class Array:
    """Shape, strides (in elements) and dtype of one launch argument; address 0 stands for a 256-byte aligned one."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int = 0

    def stride(self, dim: int | None = None) -> int | tuple[int, ...]:
        """Return one stride, or all of them, as torch does."""
        return self.strides if dim is None else self.strides[dim]

    def data_ptr(self) -> int:
        return self.address


def contiguous(shape: Sequence[int], dtype: str) -> Array:
    """Return a row-major array, with torch's strides, which are never 0.

    >>> contiguous((2, 3), "float16").strides, contiguous((2, 0, 3), "float16").strides
    ((3, 1), (3, 3, 1))
    """
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return Array(tuple(shape), tuple(reversed(strides)), dtype)


def parse_warps(text: str) -> tuple[int, int]:
    """Read warps written as WMxWN.

    >>> parse_warps("4x1")
    (4, 1)
    """
    parts = text.split("x")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise LayoutgenError(f"warps {text!r}: must be written WMxWN, for example 4x1")
    return int(parts[0]), int(parts[1])


def written_warps(warps: tuple[int, int]) -> str:
    """Write warps as `parse_warps` reads them.

    >>> written_warps((4, 1))
    '4x1'
    """
    return "x".join(map(str, warps))


def fields_from(data: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Return the fields of a request from what its `as_dict` wrote, in which tuples are lists, and warps are text."""
    found = {name: data[name] for name in fields_of(kind) if name in data}
    if "warps" in found:
        found["warps"] = parse_warps(str(found["warps"]))
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def float_atom(name: str) -> Atom:
    """Return an atom that kernels can be built from: one that accumulates in float32."""
    found = atom(name)
    if found.accumulator.dtype != STATISTICS_DTYPE:
        raise LayoutgenError(
            f"atom {found.name} accumulates in {found.accumulator.dtype}; kernels need {STATISTICS_DTYPE}"
        )
    for operand in ("a", "b"):
        if found.parts(operand) > 1:
            raise LayoutgenError(
                f"atom {found.name}: {operand} comes in {found.parts(operand)} parts; kernels need operands of one part"
            )
    return found


def check_power_of_two(name: str, value: int, least: int, what: str) -> None:
    """Refuse a block size that is no power of two, less than `least`, which is `what`, or larger than any block."""
    if not is_power_of_two(value) or not least <= value <= MAX_BLOCK:
        raise LayoutgenError(
            f"{name} = {value}: must be a power of two and at least {least}, {what}, at most {MAX_BLOCK}; "
            f"the nearest legal value is {nearest_power_of_two(value, least, MAX_BLOCK)}"
        )


def chosen_design(
    family: str, designs: Mapping[str, type[RequestKind]], design: str, features: Iterable[str]
) -> type[RequestKind]:
    """Return the requests of a family's design, which must have the fields that are asked of it."""
    if not isinstance(design, str) or design not in designs:
        raise LayoutgenError(f"design {design!r}: must be one of {', '.join(designs)}")
    for name in features:
        if name not in fields_of(designs[design]):
            takers = [known for known, kind in designs.items() if name in fields_of(kind)]
            known = dict.fromkeys(field for kind in designs.values() for field in fields_of(kind))
            near = get_close_matches(name, known)
            raise LayoutgenError(
                f"{family}, design {design}: takes no {name}"
                + (f"; {takers[0]} does: take design {takers[0]}" if takers else "")
                + (f"; what is near it is called {' or '.join(near)}" if near and not takers else "")
            )
    return designs[design]


def fields_of(kind: type) -> tuple[str, ...]:
    """Return the names of a request's fields."""
    return tuple(field.name for field in fields(kind))


def check_types(request: object) -> None:
    """Refuse a request with a field whose value is not of the type that the field is declared with."""
    check_fields(type(request), {name: getattr(request, name) for name in fields_of(type(request))})


def check_fields(kind: type, given: Mapping[str, object]) -> None:
    """Refuse values for fields of a request that are not of the types that the fields are declared with."""
    wanted = _field_types(kind)
    for name, value in given.items():
        check_type(name, value, wanted[name])


def check_type(name: str, value: object, wanted: Any) -> None:
    """Refuse a value that is not of a type.

    >>> check_type("head_dim", "64", int)
    Traceback (most recent call last):
    layoutgen.errors.LayoutgenError: head_dim = '64': is a str; it must be int
    """
    if not _fits(value, wanted):
        raise LayoutgenError(f"{name} = {value!r}: is a {type(value).__name__}; it must be {_type_name(wanted)}")


@cache
def _field_types(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {name: hints[name] for name in fields_of(cls)}


def _fits(value: object, wanted: Any) -> bool:
    """Whether a value has a type, as mypy would say, but that a list may stand for a tuple, and True for no number."""
    if isinstance(wanted, UnionType):
        return any(_fits(value, one) for one in get_args(wanted))
    if get_origin(wanted) is Sequence:
        return isinstance(value, list | tuple) and all(_fits(one, get_args(wanted)[0]) for one in value)
    if get_origin(wanted) is tuple:
        parts = get_args(wanted)
        if not isinstance(value, list | tuple) or (parts[-1] is not Ellipsis and len(value) != len(parts)):
            return False
        return all(_fits(one, parts[0]) for one in value)
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, int | float if wanted is float else wanted)


def _type_name(wanted: Any) -> str:
    if isinstance(wanted, UnionType):
        return " or ".join(_type_name(one) for one in get_args(wanted))
    if get_origin(wanted) is Sequence:
        return f"a sequence of {_type_name(get_args(wanted)[0])}"
    return "None" if wanted is NoneType else str(wanted) if get_origin(wanted) else wanted.__name__


def check_shape(shape: Sequence[int], letters: str) -> None:
    """Refuse a launch shape that does not have one size of at least 0 per letter, as in "Z,M,N,K"."""
    names = letters.split(",")
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise LayoutgenError(f"shape {shape!r}: must be {letters}, a sequence of {len(names)} sizes")
    if len(shape) != len(names):
        given = ",".join(map(str, shape))
        raise LayoutgenError(
            f"shape {given}: must be {letters}, {len(names)} sizes; for example "
            f"{','.join(str(EXAMPLE_SIZES[name]) for name in names)}"
        )
    for name, size in zip(names, shape, strict=True):
        if not isinstance(size, int) or not 0 <= size <= MAX_SIZE:
            raise LayoutgenError(f"shape: {name} = {size!r:.30}: must be a whole number from 0 to 2^63 - 1")
