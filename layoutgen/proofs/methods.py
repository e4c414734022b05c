"""Claims about any two layouts, each provable in three ways: by rank, symbolically, exhaustively.

The ways share nothing but the layouts: rank looks at bases, the symbolic way expands sympy expressions over bits until
they cancel, the exhaustive way visits every hardware index. If one way denied what rank decides, that would be a fault
of the library, an AssertionError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from layoutgen.algebra import HARDWARE, Kind, LinearLayout, classify, gf2
from layoutgen.algebra.symbolic import expressions, symbols
from layoutgen.errors import LayoutgenError
from layoutgen.proofs.claims import bases, bijective, hardware
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict

if TYPE_CHECKING:
    from sympy import Symbol
    from sympy.logic.boolalg import Boolean

METHODS = ("rank", "symbolic", "exhaustive")


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise LayoutgenError(f"method {method!r}: must be one of {', '.join(METHODS)}")


def equal(name: str, have: LinearLayout, want: LinearLayout, method: str = "rank") -> Verdict:
    """Prove that two layouts put the same element at every hardware index.

    >>> layout = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    >>> print(equal("tile", layout, layout, "symbolic"))
    proved   tile is the layout wanted: every hardware index holds the same element [symbolic: dim0[0] = lane0; \
dim0[1] = lane1]
    """
    _check_method(method)
    obligation = Obligation(f"{name} is the layout wanted", 3, "every hardware index holds the same element")
    if have.domain != want.domain or have.codomain.shape != want.codomain.shape:
        raise LayoutgenError(
            f"equal: {name} maps {have.domain} to {list(have.shape)}, the other {want.domain} to {list(want.shape)}"
        )
    facts: tuple[str, ...]
    wrong: int | None = None
    if method == "rank":
        differing = [bit for bit, pair in enumerate(zip(have.columns, want.columns, strict=True)) if len(set(pair)) > 1]
        wrong = 1 << differing[0] if differing else None
        facts = (f"{have.domain.bits} of {have.domain.bits} bases equal",)
    elif method == "exhaustive":
        indices = np.flatnonzero(have.table() != want.table())
        wrong = int(indices[0]) if indices.size else None
        facts = (f"{have.domain.size} indices compared",)
    else:
        ours, theirs = expressions(have), expressions(want)
        inputs = symbols(have.domain)
        for mine, other in zip(ours.values(), theirs.values(), strict=True):
            for left, right in zip(mine, other, strict=True):
                rest = _sum(left, right).free_symbols
                if rest and wrong is None:
                    wrong = 1 << min(inputs.index(symbol) for symbol in rest)
        facts = _equations(ours)
    if wrong is None:
        return Certificate(obligation, method, facts)
    return Refutation(
        obligation,
        method,
        bases(have, wrong),
        f"{hardware(have, wrong)} holds {have(have.domain.unpack(wrong))}; wanted is {want(want.domain.unpack(wrong))}",
    )


def _sum(*terms: Boolean) -> Boolean:
    import sympy

    return sympy.Xor(*terms)


def _equations(values: Mapping[str, tuple[Boolean, ...]]) -> tuple[str, ...]:
    return tuple(
        f"{dim}[{bit}] = {str(value) if value.free_symbols else '0'}"
        for dim, column in values.items()
        for bit, value in enumerate(column)
    )


def bijection(name: str, layout: LinearLayout, method: str = "rank") -> Verdict:
    """Prove claim 1, that every element has one owner; symbolically, by an inverse that cancels to the identity."""
    _check_method(method)
    by_rank = bijective(name, layout)
    if method == "rank":
        return by_rank
    obligation = by_rank.obligation
    if method == "exhaustive":
        owners = np.bincount(layout.table(), minlength=layout.codomain.size)
        if (owners == 1).all():
            return Certificate(obligation, method, (f"{layout.domain.size} indices, {owners.size} elements, one each",))
        if (owners > 1).any():
            element = int(np.argmax(owners > 1))
            first, second = (int(i) for i in np.flatnonzero(layout.table() == element)[:2])
            witness = (
                f"{hardware(layout, first)} and {hardware(layout, second)} both hold {layout.codomain.unpack(element)}"
            )
            return Refutation(obligation, method, bases(layout, first ^ second), witness)
        element = int(np.argmin(owners))
        return Refutation(obligation, method, "no basis reaches it", f"nobody holds {layout.codomain.unpack(element)}")
    forward = expressions(layout)
    if isinstance(by_rank, Refutation):
        return _cancels(obligation, layout, forward)
    backward = expressions(layout.invert())
    elements = symbols(layout.codomain)
    values: dict[Symbol, Boolean] = {}
    for dim, column in forward.items():
        start = layout.codomain.offsets[dim]
        values |= {elements[start + bit]: value for bit, value in enumerate(column)}
    inputs = symbols(layout.domain)
    for dim, column in backward.items():
        start = layout.domain.offsets[dim]
        for bit, value in enumerate(column):
            # The inverse is a sum of element bits; each is replaced by its own sum of hardware bits.
            terms = [values[symbol] for symbol in sorted(value.free_symbols, key=str)]
            if _sum(*terms) != inputs[start + bit]:
                raise AssertionError(f"bijection: the inverse of {name} does not cancel at {dim}{bit}")
    return Certificate(obligation, method, _equations(backward))


def _cancels(obligation: Obligation, layout: LinearLayout, forward: Mapping[str, tuple[Boolean, ...]]) -> Refutation:
    """Refute a bijection by a sum that cancels: of hardware bits in every coordinate, or of coordinate bits."""
    if layout.kernel:
        vector = layout.kernel[0]
        chosen = {symbol for bit, symbol in enumerate(symbols(layout.domain)) if vector >> bit & 1}
        left = [value for column in forward.values() for value in column if len(value.free_symbols & chosen) % 2]
        if left:
            raise AssertionError(f"bijection: the sum of {bases(layout, vector)} does not cancel in {left[0]}")
        both = f"{hardware(layout, 0)} and {hardware(layout, vector)} both hold {layout.codomain.unpack(0)}"
        return Refutation(obligation, "symbolic", bases(layout, vector), both)
    bits = [value for _, column in reversed(list(forward.items())) for value in column]
    rows = [sum((column >> bit & 1) << i for i, column in enumerate(layout.columns)) for bit in range(len(bits))]
    relation = gf2.echelon(rows).kernel[0]
    chosen_bits = [bit for bit in range(len(bits)) if relation >> bit & 1]
    if _sum(*(bits[bit] for bit in chosen_bits)).free_symbols:
        raise AssertionError("bijection: a relation between coordinates does not cancel")
    sums = " + ".join(layout.codomain.bit_name(bit) for bit in chosen_bits)
    orphan = layout.codomain.unpack(1 << chosen_bits[0])
    return Refutation(obligation, "symbolic", f"{sums} = 0 for every index", f"nobody holds {orphan}")


def trivial(name: str, source: LinearLayout, target: LinearLayout, method: str = "rank") -> Verdict:
    """Prove that converting `source` to `target` moves no data; a refutation names what has to move.

    >>> rows = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0]]}, (2, 2))
    >>> columns = LinearLayout.from_bases({"register": [[1, 0]], "lane": [[0, 1]]}, (2, 2))
    >>> print(trivial("S", rows, columns))
    REFUTED  converting S is trivial: every thread already holds, in registers that do not depend on the thread, \
what it wants [rank]
             at basis register0: register 1 wants (1, 0), which is in lane 1, register 0
    """
    _check_method(method)
    obligation = Obligation(
        f"converting {name} is trivial",
        3,
        "every thread already holds, in registers that do not depend on the thread, what it wants",
    )
    conversion = classify(source, target)
    if not conversion.is_trivial:
        basis = target.domain.bit_name(conversion.telling_bit)
        witness = conversion.witness
        if conversion.kind <= Kind.REGISTERS:
            witness += ": which register depends on the thread"
        return Refutation(obligation, method, basis, witness)
    owners = conversion.owners
    registers = source.domain.bits_of("register")
    if method == "exhaustive":
        held = source.table()
        own = target.table()
        count = 1 << target.domain.bits_of("register")
        choice = owners.table()[:count]
        threads = np.arange(len(own) // count)
        # One choice of registers, made at thread 0, must serve every thread.
        fetched = held[(threads[:, None] << registers) + choice[None, :]]
        if not np.array_equal(fetched.reshape(-1), own):
            raise AssertionError(f"trivial: the owners of {name} do not hold what is wanted")
        return Certificate(obligation, method, (f"{own.size} registers of {threads.size} threads compared",))
    if method == "symbolic":
        verdict = equal(name, source.compose(owners), target, "symbolic")
        if isinstance(verdict, Refutation):
            raise AssertionError(f"trivial: the owners of {name} do not cancel: {verdict.witness}")
        formulas = expressions(owners)
        for dim in HARDWARE[1:]:
            same = symbols(target.domain)[target.domain.offsets[dim] :][: target.domain.bits_of(dim)]
            if formulas[dim] != same:
                raise AssertionError(f"trivial: an owner of {name} is in another {dim}")
        return Certificate(obligation, method, _equations({"register": formulas["register"]}))
    return Certificate(
        obligation, method, (f"{conversion.kind}", f"source after owners = target on {len(owners.columns)} bases")
    )


def latex(verdict: Verdict) -> str:
    """Return a verdict as LaTeX: the claim, how it was shown, on what facts or by which counterexample.

    >>> layout = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    >>> print(latex(bijection("tile", layout)))
    \\paragraph{Claim 1: tile is a bijection.} Each of 4 elements of [4] has one owner.
    \\emph{Proof} by rank: rank 2 of 2 bits; kernel \\{0\\}. \\(\\square\\)
    """
    obligation = verdict.obligation
    statement = _escape(obligation.statement[:1].upper() + obligation.statement[1:])
    head = f"\\paragraph{{Claim {obligation.claim}: {_escape(obligation.name)}.}} {statement}."
    if isinstance(verdict, Certificate):
        facts = "; ".join(_escape(fact) for fact in verdict.facts)
        return f"{head}\n\\emph{{Proof}} by {_way(verdict.method)}: {facts}. \\(\\square\\)"
    counter = f"at basis {_escape(verdict.basis)}, {_escape(verdict.witness)}"
    return f"{head}\n\\emph{{Refuted}} by {_way(verdict.method)}: {counter}."


def _way(method: str) -> str:
    return {"rank": "rank", "symbolic": "symbolic expansion", "exhaustive": "exhaustion"}.get(method, method)


_SPECIAL = {"\\": r"\textbackslash{}", "^": r"\(\oplus\)", "~": r"\textasciitilde{}"} | {c: f"\\{c}" for c in "_%&#{}$"}
_POWER = re.compile(r"(\w+)\^(-?\w+)")
"""A base and its exponent are written without spaces, as in 2^3 and L^-1; sums over GF(2) with them, as in a ^ b."""


def _escape(text: str) -> str:
    """Return text as LaTeX sets it: powers as powers, any other ^ as a sum over GF(2)."""
    pieces = []
    end = 0
    for power in _POWER.finditer(text):
        base, exponent = map(_characters, power.groups())
        pieces += [_characters(text[end : power.start()]), f"\\({base}^{{{exponent}}}\\)"]
        end = power.end()
    return "".join([*pieces, _characters(text[end:])])


def _characters(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)
