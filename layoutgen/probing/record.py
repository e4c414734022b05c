"""A probe as JSON and as a page."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import layoutgen
from layoutgen.probing.device import ATOM
from layoutgen.probing.probes import Probe, Row

HEAD = ("case", "max error", "TFLOP/s", "predicted", "range", "result")


def as_dict(probe: Probe, date: datetime.date) -> dict[str, Any]:
    """Return a probe as plain data."""
    return {
        "kind": probe.kind,
        "shape": list(probe.shape),
        "date": date.isoformat(),
        "layoutgen": layoutgen.__version__,
        "card": probe.card.as_dict(),
        "predicted_for": probe.predicted_for,
        "passed": probe.passed,
        "rows": [asdict(row) for row in probe.rows],
    }


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text, in the order of HEAD."""

    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    spread = "" if row.predicted is None else f"{row.predicted_low:.1f} to {row.predicted_high:.1f}"
    result = " ".join(filter(None, ("passed" if row.passed else "FAILED", row.note and f"({row.note})")))
    return (
        row.case,
        number(row.max_error, ".3g"),
        number(row.tflops, ".2f"),
        number(row.predicted, ".1f"),
        spread,
        result,
    )


def page(probe: Probe, date: datetime.date, command: str) -> str:
    """Return a probe as a Markdown page."""
    card = probe.card
    shape = ", ".join(map(str, probe.shape))
    clock = f"{card.clock_mhz} MHz while kernels ran" if card.clock_mhz else "clock not read"
    most = f", {card.max_clock_mhz} MHz at most" if card.max_clock_mhz else ""
    lines = [
        f"# Probe of {probe.kind} on {card.name}",
        "",
        f"Written by `{command}` on {date.isoformat()}; shape {shape}; layoutgen {layoutgen.__version__}, "
        f"Triton {card.triton}, torch {card.torch}, driver {card.driver}, {card.arch}, {clock}{most}.",
        "",
    ]
    if card.emulated:
        lines += [
            f"**Emulated.** {card.arch} does not have mma.{ATOM.alias}: other instructions stand in for it. The "
            "results count, the speed says nothing about the cards that the kernels are for.",
            "",
        ]
    if probe.predicted_for:
        where = "another card than this one" if card.emulated else "this card"
        lines += [f"Predictions are by the model of docs/model.md for {probe.predicted_for}: {where}.", ""]
    if probe.kind != "tile":
        lines += ["Errors are absolute, against float64, over sampled rows; inputs are standard normal.", ""]
    used = [index for index, _ in enumerate(HEAD) if index in (0, 5) or any(cells(row)[index] for row in probe.rows)]
    rows: Sequence[Sequence[str]] = [HEAD, ["---"] * len(HEAD), *(cells(row) for row in probe.rows)]
    lines += ["| " + " | ".join(row[index] for index in used) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def stem(probe: Probe) -> str:
    """Return the name of a probe's files, without suffix.

    >>> re.sub(r"[^a-z0-9]+", "_", "NVIDIA H200".lower())
    'nvidia_h200'
    """
    return f"probe_{probe.kind}_" + re.sub(r"[^a-z0-9]+", "_", probe.card.name.lower()).strip("_")
