"""Accesses as places: what they touch, read off the strides of their addresses as coordinates of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

from layoutgen.proofs import Obligation, Refutation
from layoutgen.readback.accesses import Access
from layoutgen.readback.indices import ONE, ZERO, Formula
from layoutgen.readback.polynomial import Polynomial

Dims = tuple[tuple[str, str, str | int], ...]
"""Per dim of a tensor: what it is called, its stride and its length: a product of numbers and names, or a number.

Of contiguous tensors the dims come with the greatest stride first, and the last stride is 1.
"""


@dataclass(frozen=True)
class Place:
    """One access of a tensor: a coordinate per dim, and the condition under which it happens."""

    kind: str
    line: int
    coordinates: tuple[Polynomial, ...]
    condition: Formula
    share: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fault:
    """What is wrong. Not `shown`: it could not be followed, which proves nothing, and counts as refuted."""

    place: str
    witness: str
    shown: bool = True

    def refutation(self, obligation: Obligation) -> Refutation:
        said = self.witness if self.shown else f"not followed: {self.witness}"
        return Refutation(obligation, "symbolic", self.place, said)


def placed(access: Access, dims: Dims) -> Place | Fault:
    """Read coordinates off the strides of an address."""
    where = f"line {access.line}"
    if access.address is None:
        return Fault(where, f"the address of this {access.kind} cannot be followed", False)
    if access.condition is None:
        return Fault(where, f"the condition of this {access.kind} cannot be followed", False)
    tensor, rest = access.address.tensor, access.address.offset
    coordinates = []
    for _, stride, _ in dims:
        coordinate = _times(rest, product_of(stride))
        coordinates.append(coordinate)
        rest -= coordinate * product_of(stride)
    if rest != ZERO:
        return Fault(where, f"its address has {rest}, which is no coordinate times a stride of {tensor}", False)
    return Place(access.kind, access.line, tuple(coordinates), access.condition, access.share)


def product_of(text: str) -> Polynomial:
    """Return a product of numbers and names.

    >>> str(product_of("3 * k * n"))
    '3 k n'
    """
    result = ONE
    for factor in text.split(" * "):
        result *= Polynomial.constant(int(factor)) if factor.isdigit() else Polynomial.symbol(factor)
    return result


def _times(value: Polynomial, stride: Polynomial) -> Polynomial:
    """Return what a stride is multiplied with: in the terms that have all of its factors."""
    ((factors, number),) = stride.terms
    result: dict[tuple[str, ...], int] = {}
    for monomial, coefficient in value.terms:
        rest = list(monomial)
        if coefficient % number or any(monomial.count(name) < factors.count(name) for name in factors):
            continue
        for name in factors:
            rest.remove(name)
        result[tuple(rest)] = coefficient // number
    return Polynomial.of(result)


def length_of(length: str | int) -> Polynomial:
    return product_of(length) if isinstance(length, str) else Polynomial.constant(length)


def element(name: str) -> Polynomial:
    """Return the symbol of an element's coordinate along a dim.

    >>> str(element("key"))
    'the key'
    """
    return Polynomial.symbol(f"the {name}")
