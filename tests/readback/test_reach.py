"""The decisions of claim 6 against enumeration: every index of every access, at many small lengths."""

import ast
import itertools
import re
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import layoutgen as lg
from layoutgen.readback import masks_kernel
from layoutgen.readback.indices import Extreme, Index, Quotient, Symbols
from layoutgen.readback.masks import prove_masks
from layoutgen.readback.places import Dims, Fault, Place
from layoutgen.readback.polynomial import Polynomial

Values = dict[str, int]


class Enumeration:
    """Values of polynomials once sizes and indices have values; definitions are computed, not solved."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols

    def value(self, polynomial: Polynomial, values: Mapping[str, int]) -> int:
        total = 0
        for monomial, factor in polynomial.terms:
            for name in monomial:
                factor *= self.symbol(name, values)
            total += factor
        return total

    def symbol(self, name: str, values: Mapping[str, int]) -> int:
        found = self.symbols.definitions.get(name)
        if isinstance(found, Quotient):
            dividend = self.value(found.dividend, values)
            if found.to_zero and dividend < 0:
                return -(-dividend // found.divisor)
            return dividend // found.divisor
        if isinstance(found, Extreme):
            both = [self.value(argument, values) for argument in found.arguments]
            return min(both) if found.least else max(both)
        return values[name]

    def indices(self, names: set[str]) -> list[str]:
        """Return the indices that these symbols rest on, each behind those of its own conditions."""
        order: list[str] = []

        def visit(name: str) -> None:
            found = self.symbols.definitions.get(name)
            if isinstance(found, Quotient):
                inner = found.dividend.symbols
            elif isinstance(found, Extreme):
                inner = {s for argument in found.arguments for s in argument.symbols}
            elif isinstance(found, Index):
                inner = {s for condition in found.conditions for s in condition.symbols} - {name}
            else:
                inner = set()
            for other in sorted(inner):
                visit(other)
            if isinstance(found, Index) and name not in order:
                order.append(name)

        for name in sorted(names):
            visit(name)
        return order

    def assignments(self, names: list[str], values: Values) -> Iterator[Values]:
        if not names:
            yield values
            return
        found = self.symbols.definitions[names[0]]
        assert isinstance(found, Index)
        for number in itertools.count():
            chosen = {**values, names[0]: number}
            if any(self.value(condition, chosen) < 0 for condition in found.conditions):
                return
            yield from self.assignments(names[1:], chosen)

    def touched(self, place: Place, dim: int, sizes: Values) -> Iterator[tuple[int, int]]:
        """Yield (program along the first axis, coordinate) of everything that an access touches along a dim."""
        names = {"program_id(0)"} | place.coordinates[dim].symbols | place.condition.symbols
        for values in self.assignments(self.indices(names), sizes):
            if any(all(self.value(p, values) >= 0 for p in case) for case in place.condition.cases):
                yield values["program_id(0)"], self.value(place.coordinates[dim], values)


def keys_touched(made: lg.Kernel, source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, list]:
    """Return whether loads of K are proved, and the places that this was decided from."""
    seen: list[tuple[Symbols, list[Place]]] = []
    own = masks_kernel._fault

    def watched(tensor: str, request: object, dims: Mapping[str, Dims], places: dict, symbols: Symbols, given: object):
        if tensor == "k" and not isinstance(places["k"], Fault):
            seen.append((symbols, places["k"]))
        return own(tensor, request, dims, places, symbols, given)

    with monkeypatch.context() as patch:
        patch.setattr(masks_kernel, "_fault", watched)
        verdicts = prove_masks(source, made.request)
    found = [verdict for verdict in verdicts if " of k cover it" in verdict.obligation.name]
    return bool(found) and all(verdict.holds for verdict in found), seen


FEATURES = ({}, {"causal": True}, {"window": (7, 9), "alignment": "bottom-right"}, {"bias": True, "window": (20, 0)})
KERNELS = [lg.attention(head_dim=16, design="fast", block_m=32, block_n=16, **f) for f in FEATURES]  # type: ignore
LENGTHS = [(t_q, t_k) for t_q in (1, 31, 33, 64, 70) for t_k in (0, 1, 15, 16, 17, 31, 33, 48, 70)]


def wrong_lengths(made: lg.Kernel, symbols: Symbols, places: list[Place]) -> Iterator[str]:
    """Yield the lengths at which a block touches a key that is none, or not one that its queries see."""
    request, enumeration = made.request, Enumeration(symbols)
    for t_q, t_k in LENGTHS:
        sizes = {"t_q": t_q, "t_k": t_k, "batch": 1, "heads": 1, "kv_heads": 1}
        touched = {pair for place in places for pair in enumeration.touched(place, 2, sizes)}
        if any(not 0 <= key < t_k for _, key in touched):
            yield f"outside at {t_q}, {t_k}"
        for query, key in itertools.product(range(t_q), range(t_k)):
            ahead = key - query - (t_k - t_q if request.alignment == "bottom-right" else 0)
            hidden = (request.right is not None and ahead > request.right) or (
                request.left is not None and -ahead > request.left
            )
            if not hidden and (query // 32, key) not in touched:
                yield f"{query}, {key} is missed at {t_q}, {t_k}"
                break


@pytest.mark.parametrize("made", KERNELS, ids=[str(f) for f in FEATURES])
def test_what_is_proved_holds_at_every_length(made: lg.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    proved, seen = keys_touched(made, made.source, monkeypatch)
    assert proved
    assert seen
    for symbols, places in seen:
        assert list(wrong_lengths(made, symbols, places)) == []


def numbers(source: str) -> list[re.Match[str]]:
    """Return the integers of the kernel's index arithmetic: all but those of shapes and layouts."""
    start, stop = source.index("    first_query = "), source.index("    # A row without any visible key")
    return [m for m in re.finditer(r"(?<![\w.])\d+(?![\w.])", source) if start < m.start() < stop]


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_edit_is_proved_that_goes_wrong(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of the kernel is another one: where K is still proved, no length goes wrong."""
    check_an_edit(data, monkeypatch)


@pytest.mark.sweep
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_edit_is_proved_that_goes_wrong_in_many(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    check_an_edit(data, monkeypatch)


def check_an_edit(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    made = data.draw(st.sampled_from(KERNELS))
    match = data.draw(st.sampled_from(numbers(made.source)))
    changed = int(match[0]) + data.draw(st.sampled_from([-16, -1, 1, 16]))
    assume(changed >= 0)
    source = made.source[: match.start()] + str(changed) + made.source[match.end() :]
    ast.parse(source)
    proved, seen = keys_touched(made, source, monkeypatch)
    if proved:
        for symbols, places in seen:
            assert list(wrong_lengths(made, symbols, places)) == [], (
                f"line {source[: match.start()].count(chr(10)) + 1}"
            )


@pytest.mark.parametrize(
    ("old", "new"), [("t_k // 16 - 1", "t_k // 16"), ("range(0, unmasked_tiles)", "range(1, unmasked_tiles)")]
)
def test_the_enumeration_can_fail(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = KERNELS[0]
    assert old in made.source
    proved, seen = keys_touched(made, made.source.replace(old, new), monkeypatch)
    assert not proved
    assert any(list(wrong_lengths(made, symbols, places)) for symbols, places in seen)
