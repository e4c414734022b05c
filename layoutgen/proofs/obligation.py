"""What is proved, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from layoutgen.errors import RefutedError


@dataclass(frozen=True)
class Obligation:
    """A claim about named layouts. `claim` is its number in docs/design.md."""

    name: str
    claim: int
    statement: str


@dataclass(frozen=True)
class Certificate:
    """The obligation holds. `method` is rank, exhaustive or symbolic; `facts` are what it rests on."""

    obligation: Obligation
    method: str
    facts: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return True

    def as_dict(self) -> dict[str, Any]:
        return {"holds": True, **vars(self.obligation), "method": self.method, "facts": list(self.facts)}

    def __str__(self) -> str:
        return f"proved   {self.obligation.name}: {self.obligation.statement} [{self.method}: {'; '.join(self.facts)}]"


@dataclass(frozen=True)
class Refutation:
    """The obligation fails. `basis` names the basis at fault, `witness` one concrete element that shows it."""

    obligation: Obligation
    method: str
    basis: str
    witness: str

    @property
    def holds(self) -> bool:
        return False

    def as_dict(self) -> dict[str, Any]:
        return {
            "holds": False,
            **vars(self.obligation),
            "method": self.method,
            "basis": self.basis,
            "witness": self.witness,
        }

    def __str__(self) -> str:
        return (
            f"REFUTED  {self.obligation.name}: {self.obligation.statement} [{self.method}]\n"
            f"         at basis {self.basis}: {self.witness}"
        )


Verdict = Certificate | Refutation


def require(verdicts: Iterable[Verdict]) -> None:
    """Raise RefutedError with the first refutation, if there is one."""
    for verdict in refutations(verdicts):
        raise RefutedError(
            f"{verdict.obligation.name}: {verdict.obligation.statement}: refuted at basis "
            f"{verdict.basis}: {verdict.witness}"
        )


def refutations(verdicts: Iterable[Verdict]) -> tuple[Refutation, ...]:
    """Return those verdicts that refute, in their order.

    >>> refutations([Certificate(Obligation("x", 1, "so it is"), "rank", ("a fact",))])
    ()
    """
    return tuple(verdict for verdict in verdicts if isinstance(verdict, Refutation))
