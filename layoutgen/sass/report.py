"""An inspection as text: ports, bound, prediction, where the cycles go, and every instruction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from layoutgen.sass.inspection import Inspection
from layoutgen.sass.simulate import REASONS

DISCLAIMER = "by a model of the machine code; nothing here was measured"


def table(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Align columns: the first `left` to the left, the others to the right.

    >>> table([("a", "1"), ("bc", "10")])
    ['a    1', 'bc  10']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def summary(found: Inspection, clock_mhz: int | None = None) -> str:
    """Return the summary: loop, occupancy, ports, bound, prediction, and where the cycles go."""
    compiled, loop = found.compiled, found.loop
    spilled = compiled.spill_stores + compiled.spill_loads
    lines = [
        f"{found.name} for {compiled.arch} ({found.profile.name}), Triton {compiled.triton}: {DISCLAIMER}",
        *_kernels(found),
        f"  resources   {compiled.registers} registers a thread, {spilled} bytes spilled, "
        f"{compiled.shared_bytes} bytes shared",
        f"  occupancy   {found.occupied}",
        f"  main loop   {loop.start:#x} to {loop.end:#x}: {len(loop.body)} instructions, {found.hmma} HMMA "
        f"({found.instructions_per_hmma:.2f} instructions and {found.load_bytes_per_hmma:.1f} B of shared loads each)",
    ]
    lines.append("  pipes       " + ", ".join(f"{pipe} {count}" for pipe, count in found.pipes.items()))
    if loop.forward_branches:
        skipped = ", ".join(f"{branch.address:#x}" for branch in loop.forward_branches)
        lines.append(f"  branches    at {skipped} within the loop: counted as not taken")
    rows = [("port", "a warp", "all", "of the bound")]
    for port, cycles in sorted(found.ports.busy.items(), key=lambda item: -item[1]):
        rows.append((port, f"{found.ports.per_warp[port]:.0f}", f"{cycles:.0f}", f"{cycles / found.ports.bound:.0%}"))
    lines += ["", "Cycles per iteration; all: the warps of a sub-core, for lsu those of the SM"]
    lines += ["  " + line for line in table(rows)]
    if found.unpriced:
        lines.append(f"no price: {', '.join(found.unpriced)}; these are missing above, and there is no prediction")
        return "\n".join(lines)
    predicted = found.predict(clock_mhz)
    cycles = sum(run.cycles for run in found.runs) / len(found.runs)
    lines += [
        "",
        f"Predicted at {predicted.clock_mhz} MHz ({DISCLAIMER})",
        f"  bound       {found.ports.bound:.0f} cycles an iteration, set by {found.ports.limiter}: "
        f"{predicted.bound_tflops:.1f} TFLOP/s at most; HMMA ceiling {predicted.ceiling_tflops:.1f}",
        f"  simulated   {cycles:.0f} cycles: {predicted.mean:.1f} TFLOP/s, {predicted.low:.1f} to {predicted.high:.1f} "
        f"over {len(predicted.tflops)} stagger{'s' if len(predicted.tflops) > 1 else ''} of the blocks",
        "",
        "Where a warp's cycles go, per iteration",
    ]
    lines += ["  " + line for line in table(_reasons(found))]
    lines += ["", "Source lines that take the most of a warp's cycles"]
    lines += ["  " + line for line in table(_lines(found), left=1)]
    return "\n".join(lines)


def _kernels(found: Inspection) -> list[str]:
    """Return which kernel is shown, where a call launches others too."""
    if not found.others:
        return []
    return [
        f"  kernel      {found.compiled.kernel} alone; a call also launches {', '.join(found.others)}: "
        "`layoutgen compile` shows what they take"
    ]


def _reasons(found: Inspection) -> list[tuple[str, str, str]]:
    totals = [sum(row[reason] for row in found.spent) for reason in range(len(REASONS))]
    whole = sum(totals)
    return [(name, f"{value:.0f}", f"{value / whole:.0%}") for name, value in zip(REASONS, totals, strict=True)]


def _lines(found: Inspection, most: int = 10) -> list[tuple[str, ...]]:
    cycles: dict[str, float] = defaultdict(float)
    count: Counter[str] = Counter()
    waves: dict[str, float] = defaultdict(float)
    for instruction, row in zip(found.loop.body, found.spent, strict=True):
        name = found.where(instruction.source.outermost if instruction.source else None)
        cycles[name] += sum(row)
        count[name] += 1
        waves[name] += found.wavefronts.get(instruction.address, 0)
    rows: list[tuple[str, ...]] = [("line", "cycles", "instructions", "wavefronts")]
    for name, spent in sorted(cycles.items(), key=lambda item: -item[1])[:most]:
        rows.append((name, f"{spent:.0f}", str(count[name]), f"{waves[name]:g}"))
    return rows


def instructions(found: Inspection) -> str:
    """Return the loop instruction by instruction: control code, port and its cycles, waiting, source line."""
    rows = [("address", "control", "instruction", "port", "cycles", "waits", "for", "source")]
    spent = None if found.unpriced else found.spent
    for number, instruction in enumerate(found.loop.body):
        priced = found.priced.get(instruction.address)
        port, cycles = ("no price", "") if priced is None else (priced.port, f"{priced.cycles:g}")
        waits, reason = "", ""
        if spent is not None:
            longest = max(range(1, len(REASONS)), key=lambda r: spent[number][r])
            total = sum(spent[number][1:])
            waits, reason = (f"{total:.0f}", REASONS[longest]) if total >= 0.5 else ("", "")
        rows.append(
            (
                f"{instruction.address:05x}",
                str(instruction.control),
                instruction.text,
                port,
                cycles,
                waits,
                reason,
                found.where(instruction.source),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {4, 5}
    return "\n".join(
        "  ".join(
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def versus(one: Inspection, other: Inspection, clock_mhz: int | None = None) -> str:
    """Set two inspections side by side."""
    rows: list[tuple[str, ...]] = [("", one.name, other.name)]
    if one.others or other.others:
        rows.append(("kernel", one.compiled.kernel, other.compiled.kernel))
        rows.append(("not shown", *(", ".join(found.others) or "-" for found in (one, other))))
    for label, value in (
        ("tile", _tile),
        ("registers", lambda i: str(i.compiled.registers)),
        ("bytes spilled", lambda i: str(i.compiled.spill_stores + i.compiled.spill_loads)),
        ("bytes shared", lambda i: str(i.compiled.shared_bytes)),
        ("blocks x warps", lambda i: f"{i.occupied.blocks} x {i.occupied.warps_per_block}"),
        ("instructions", lambda i: str(len(i.loop.body))),
        ("HMMA", lambda i: str(i.hmma)),
        ("instructions per HMMA", lambda i: f"{i.instructions_per_hmma:.2f}"),
        ("B loaded per HMMA", lambda i: f"{i.load_bytes_per_hmma:.1f}"),
        ("wavefronts a warp", lambda i: f"{sum(i.wavefronts.values()):g}"),
        *((f"{port} busy, of bound", _busy(port)) for port in ("tensor", "lsu", "fma", "alu", "xu", "issue")),
        ("set by", lambda i: i.ports.limiter),
    ):
        rows.append((label, value(one), value(other)))
    if not one.unpriced and not other.unpriced:
        predictions = [found.predict(clock_mhz) for found in (one, other)]
        rows.append(("predicted TFLOP/s", *(f"{p.mean:.1f} ({p.low:.1f} to {p.high:.1f})" for p in predictions)))
        rows.append(("at MHz", *(str(p.clock_mhz) for p in predictions)))
    else:
        rows.append(("no price", *(", ".join(found.unpriced) or "-" for found in (one, other))))
    return "\n".join([DISCLAIMER, *table(rows)])


def _tile(found: Inspection) -> str:
    request = found.request
    names = ("head_dim", "block_m", "block_n", "block_k")
    return " ".join(f"{name} {getattr(request, name)}" for name in names if hasattr(request, name))


def _busy(port: str) -> Callable[[Inspection], str]:
    return lambda found: f"{found.ports.busy.get(port, 0.0) / found.ports.bound:.0%}"
