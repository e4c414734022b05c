"""Claim 6, decided: which elements of a tensor the accesses of a kernel touch, for all lengths.

"Nothing outside is touched" has a negation without quantifiers: some length, program, iteration and lane whose
coordinate is outside. That nothing inside is missed asks for indices that reach an element; they are computed from the
element as the digits of its coordinates, so that this negation has none either. Both go to `proofs.integers`, which
finds integers or shows that there are none. What it finds is the witness; it is made small, and a missed element is
held once more against every access before it is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from layoutgen.proofs.integers import Alternatives, Model, solve
from layoutgen.readback.indices import (
    ONE,
    ZERO,
    Extreme,
    Formula,
    Index,
    NotLinearError,
    Part,
    Quotient,
    Symbols,
    linear,
)
from layoutgen.readback.places import Dims, Fault, Place, element, length_of
from layoutgen.readback.polynomial import Polynomial

TRUE = Formula.true()


@dataclass(frozen=True)
class Reach:
    """The accesses of one tensor, with what is known of the symbols and, in `given`, of the launch."""

    symbols: Symbols
    dims: Dims
    places: tuple[Place, ...]
    given: Formula = TRUE

    # ---- nothing outside

    def outside(self) -> Fault | None:
        """Return an access outside the tensor, or None: for all lengths there is none."""
        for place in self.places:
            if self.parts(_symbols(place.coordinates) | place.condition.symbols):
                return Fault(f"line {place.line}", "some bits of an index are used without the others", False)
            shared = self._mixed(place)
            if shared:
                return Fault(f"line {place.line}", f"{shared} and its permutation are used together", False)
            for (name, _, length), coordinate in zip(self.dims, place.coordinates, strict=True):
                for beyond in (coordinate - length_of(length), -coordinate - ONE):
                    wrong = (place.condition, Formula.at_least_0(beyond))
                    if self._satisfied(wrong, []) is None:
                        continue
                    # Once more with all that the access depends on, and programs at all, so that it does happen.
                    model = self.smallest(wrong, _symbols(place.coordinates) | self.programs())
                    if model is not None:
                        value = linear(coordinate).at(model)
                        return Fault(
                            f"{name} (line {place.line})",
                            f"{self.sizes(model)}{value} lies outside and is touched",
                        )
        return None

    def _mixed(self, place: Place) -> str:
        """Return an index that an access uses beside a permutation of it: the two are not independent."""
        seen: set[str] = set()
        for name in sorted(self.closure(_symbols(place.coordinates) | place.condition.symbols)):
            definition = self.symbols.definitions.get(name)
            own = {name} | (definition.instead if isinstance(definition, Index) else frozenset())
            if own & seen:
                return sorted(own & seen)[0]
            seen |= own
        return ""

    # ---- nothing inside missed

    def missed(self, needed: Sequence[Formula] = (), others: Iterable[str] = ()) -> Fault | None:
        """Return an element that is needed but not touched, or None: for all lengths there is none.

        The element's coordinates are the symbols that `element` names. `needed` says which elements a block must touch;
        `others` are symbols of the programs that this is asked for.
        """
        if self._missed_by_shares(needed, others) is None:
            return None
        elements = [element(name) for name, _, _ in self.dims]
        lengths = [length_of(length) for _, _, length in self.dims]
        region = [Formula.at_least_0(e, size - e - ONE) for e, size in zip(elements, lengths, strict=True)]
        region += needed
        ways = []
        for place in self.places:
            values = self._digits(place, elements)
            if isinstance(values, Fault):
                return values
            ways.append(values)
        determined = {name for values in ways for name in values}
        programs = {
            name for name, d in self.symbols.definitions.items() if isinstance(d, Index) and d.kind == "program"
        }
        free = sorted((programs | set(others)) - determined)
        for name in free:
            if self.closure({name}) & determined:
                return Fault(name, "its range depends on what the element determines: this is not followed", False)
        untouched: list[Formula] = []
        for place, values in zip(self.places, ways, strict=True):
            atoms = self._atoms(place, values, elements)
            open_atoms = [atom for atom in atoms if not self._always(atom, region, free)]
            negation = Formula(())
            for atom in open_atoms:
                negation |= ~atom
            if not open_atoms:
                return None
            untouched.append(negation)
        model = self.smallest((*region, *untouched), free)
        return None if model is None else self._confirmed(model, elements, free)

    def _missed_by_shares(self, needed: Sequence[Formula], others: Iterable[str]) -> Fault | None:
        """Return None if each of the programs that share a place covers its own stretch of a dim.

        A stretch begins with the first element of its program's loop and ends where the next one begins, so that all of
        them together are everything from the first one's beginning on, whatever the beginnings are.
        """
        unknown = Fault("", "", False)
        groups = sorted({place.share for place in self.places})
        if len(groups) < 2:
            return unknown
        for dim, (name, _, _) in enumerate(self.dims):
            begins = []
            for group in groups:
                found = [self._begin(place.coordinates[dim]) for place in self.places if place.share == group]
                plain = [
                    b for b in found if not any(isinstance(self.symbols.definitions.get(s), Extreme) for s in b.symbols)
                ]
                begins.append((plain or found)[0])
            if begins[0] != ZERO or len(set(begins)) == 1:
                continue
            target = element(name)
            for number, group in enumerate(groups):
                stretch = [Formula.at_least_0(target - begins[number])]
                if number + 1 < len(groups):
                    stretch.append(Formula.at_least_0(begins[number + 1] - target - ONE))
                own = replace(self, places=tuple(place for place in self.places if place.share == group))
                if own.missed((*needed, *stretch), others) is not None:
                    return unknown
            return None
        return unknown

    def _begin(self, coordinate: Polynomial) -> Polynomial:
        return self.put(coordinate, {name: ZERO for name in coordinate.symbols if self._is_index(name)})

    def _always(self, atom: Formula, region: Sequence[Formula], free: Sequence[str]) -> bool:
        """Whether a condition holds wherever these do; only what shares symbols with it can matter."""
        related, waiting = self.closure(atom.symbols), [(r, self.closure(r.symbols)) for r in region]
        waiting += [(Formula.true(), self.closure({name})) for name in free]
        chosen: list[Formula] = []
        while True:
            near = [pair for pair in waiting if pair[1] & related]
            if not near:
                return self._satisfied((*chosen, ~atom), related & set(self.symbols.definitions)) is None
            waiting = [pair for pair in waiting if not pair[1] & related]
            for formula, names in near:
                chosen.append(formula)
                related |= names

    def _confirmed(self, model: Model, elements: list[Polynomial], free: list[str]) -> Fault:
        """Hold an element that no digits reach against every access: another choice of indices might reach it."""
        fixed = [
            Formula.at_least_0(
                Polynomial.symbol(name) - number(model, name), number(model, name) - Polynomial.symbol(name)
            )
            for name in {*(str(e) for e in elements), *self.symbols.sizes, *free}
        ]
        coordinates = ", ".join(
            f"{name} {linear(e).at(model)}" for (name, _, _), e in zip(self.dims, elements, strict=True)
        )
        for place in self.places:
            same = [Formula.at_least_0(x - e, e - x) for x, e in zip(place.coordinates, elements, strict=True)]
            if self._satisfied((*fixed, *same, place.condition), free) is not None:
                return Fault(f"line {place.line}", f"whether [{coordinates}] is reached cannot be followed", False)
        lines = ", ".join(str(line) for line in sorted({place.line for place in self.places}))
        program = "".join(f", {name} = {model.get(name, 0)}" for name in free if name.startswith("program_id"))
        return Fault(f"lines {lines}", f"{self.sizes(model)[:-2]}{program}: [{coordinates}] is missed")

    def _digits(self, place: Place, elements: list[Polynomial]) -> dict[str, Polynomial] | Fault:
        """Return indices at which an access reaches the element, as digits of its coordinates, if any do."""
        values: dict[str, Polynomial] = {}
        waiting = list(zip(place.coordinates, elements, strict=True))
        for _ in range(len(waiting)):
            for coordinate, target in list(waiting):
                plain = self._without_extremes(coordinate, values)
                unknown = sorted(
                    ((factor, monomial[0]) for monomial, factor in plain.terms
                     if len(monomial) == 1 and monomial[0] not in values and self._is_index(monomial[0])),
                    reverse=True,
                )  # fmt: skip
                waiting.remove((coordinate, target))
                if not unknown:
                    continue
                if unknown[-1][0] < 1:
                    return Fault(f"line {place.line}", f"the coordinate {coordinate} cannot be followed", False)
                digits = {name for _, name in unknown}
                base = Polynomial.of({m: f for m, f in plain.terms if not (len(m) == 1 and m[0] in digits)})
                if self.closure(base.symbols) & digits:
                    return Fault(f"line {place.line}", f"the coordinate {coordinate} cannot be followed", False)
                rest = target - self.put(base, values)
                for factor, name in unknown:
                    values[name] = self.symbols.quotient(rest, factor, False)
                    rest -= values[name] * Polynomial.constant(factor)
        for name in sorted(self.closure(place.condition.symbols)):
            # A loop or a lane that no coordinate depends on: any of its values will do, so the first.
            found = self.symbols.definitions.get(name)
            if isinstance(found, Index) and found.kind != "program" and name not in values:
                values[name] = ZERO
        return values

    def _without_extremes(self, coordinate: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
        """Put the argument that has indices in the place of a minimum or maximum; that it is this is checked later."""
        for name in sorted(coordinate.symbols):
            found = self.symbols.definitions.get(name)
            if isinstance(found, Extreme):
                # The argument that counts is the one with indices of its own.
                own = coordinate.symbols | set(values)
                counts = [sum(self._is_index(s) and s not in own for s in a.symbols) for a in found.arguments]
                if max(counts):
                    return coordinate.put({name: found.arguments[counts.index(max(counts))]})
        return coordinate

    def _atoms(self, place: Place, values: Mapping[str, Polynomial], elements: list[Polynomial]) -> list[Formula]:
        """Return all that must hold for an access to reach the element at these indices."""
        atoms = []
        for name in sorted(values):
            found = self.symbols.definitions[name]
            assert isinstance(found, Index)
            for condition in found.conditions:
                atoms.append(Formula.at_least_0(self.put(condition, values)))
            if found.product is not None:
                raise NotLinearError(str(found.product))
        for coordinate, target in zip(place.coordinates, elements, strict=True):
            gap = self.put(coordinate, values) - target
            atoms.append(Formula.at_least_0(gap))
            atoms.append(Formula.at_least_0(-gap))
        if len(place.condition.cases) == 1:
            atoms += [Formula.at_least_0(self.put(p, values)) for p in place.condition.cases[0]]
        else:
            cases = tuple(tuple(self.put(p, values) for p in case) for case in place.condition.cases)
            atoms.append(Formula(cases))
        return [atom for atom in atoms if atom.value is not True]

    # ---- symbols

    def programs(self) -> set[str]:
        found = self.symbols.definitions.items()
        return {name for name, index in found if isinstance(index, Index) and index.kind == "program"}

    def _is_index(self, name: str) -> bool:
        return isinstance(self.symbols.definitions.get(name), Index)

    def put(self, value: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
        """Replace indices, also in what minima, maxima and quotients are taken of."""
        replaced = {}
        for name in value.symbols:
            found = self.symbols.definitions.get(name)
            if name in values:
                replaced[name] = values[name]
            elif isinstance(found, Quotient):
                dividend = self.put(found.dividend, values)
                if dividend != found.dividend:
                    replaced[name] = self.symbols.quotient(dividend, found.divisor, found.to_zero)
            elif isinstance(found, Part):
                whole, size = self.put(found.whole, values), self._size(found.whole)
                if whole != found.whole:
                    replaced[name] = self.symbols.part(whole, found.mask, size)
            elif isinstance(found, Extreme):
                a, b = (self.put(argument, values) for argument in found.arguments)
                if (a, b) != found.arguments:
                    replaced[name] = self.symbols.extreme(found.least, a, b)
        return value.put(replaced)

    def _size(self, index: Polynomial) -> int:
        found = self.symbols.definitions.get(str(index))
        return (found.size or 0) if isinstance(found, Index) else 0

    def parts(self, names: Iterable[str]) -> set[str]:
        """Return the symbols for some bits of an index that are left: of them too little is known for a witness."""
        return {name for name in self.closure(names) if isinstance(self.symbols.definitions.get(name), Part)}

    def closure(self, names: Iterable[str]) -> set[str]:
        """Return symbols and all that they rest on."""
        seen: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            found = self.symbols.definitions.get(name)
            if isinstance(found, Quotient):
                waiting += found.dividend.symbols
            elif isinstance(found, Part):
                waiting += found.whole.symbols
            elif isinstance(found, Extreme):
                waiting += [s for argument in found.arguments for s in argument.symbols]
            elif isinstance(found, Index):
                waiting += [s for condition in found.conditions for s in condition.symbols]
        return seen

    # ---- decisions

    def _satisfied(self, formulas: Iterable[Formula], more: Iterable[str]) -> Model | None:
        """Return values of all symbols at which the formulas hold; None if there are none."""
        formulas = (*formulas, self.given)
        names = {name for formula in formulas for name in formula.symbols} | set(more)
        lines, choices = self.symbols.facts(names)
        for formula in formulas:
            cases: Alternatives = tuple(tuple(linear(p) for p in case) for case in formula.cases)
            if len(cases) == 1:
                lines += cases[0]
            else:
                choices.append(cases)
        return solve(lines, choices)

    def smallest(self, formulas: Sequence[Formula], more: Iterable[str]) -> Model | None:
        """Return a model like _satisfied, its sizes as small as they can be one after the other."""
        more = list(more)
        model = self._satisfied(formulas, more)
        fixed: list[Formula] = []
        for name in sorted(self.symbols.sizes):
            if model is None or name not in model:
                continue
            symbol, low = Polynomial.symbol(name), 0
            while low < model[name]:
                middle = (low + model[name]) // 2
                below = Formula.at_least_0(Polynomial.constant(middle) - symbol)
                found = self._satisfied((*formulas, *fixed, below), more)
                if found is None:
                    low = middle + 1
                else:
                    model = found
            fixed.append(Formula.at_least_0(number(model, name) - symbol))
        return model

    def sizes(self, model: Model) -> str:
        named = [f"{name} = {model[name]}" for name in sorted(self.symbols.sizes) if name in model]
        return f"with {', '.join(named)}, " if named else ""


def number(model: Model, name: str) -> Polynomial:
    return Polynomial.constant(model.get(name, 0))


def _symbols(polynomials: Iterable[Polynomial]) -> set[str]:
    return {name for polynomial in polynomials for name in polynomial.symbols}
