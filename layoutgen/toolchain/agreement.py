"""What counting can show of the way from PTX to SASS: whether ptxas kept what it must keep.

ptxas may contract a multiplication and an addition into one FFMA, and expand divisions and square roots into
approximations with corrections, so there may be more FFMA than fma; fewer means that one was lost. Memory accesses,
barriers, shuffles, exponentials, conversions to fp16 and tensor-core instructions are neither merged nor dropped in
straight code: a difference is worth a look, though unrolling and moving code out of a branch cause it too.
A load from shared memory whose result is not used is dropped, unless it is volatile, and so not expected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """One kind of operation, counted in both texts. `relation` is what must hold: sass = expected, or at least."""

    operation: str
    expected: int
    sass: int
    relation: str

    @property
    def holds(self) -> bool:
        return self.sass == self.expected if self.relation == "equal" else self.sass >= self.expected

    def __str__(self) -> str:
        verb = "must equal" if self.relation == "equal" else "must be at least"
        return f"{self.operation}: SASS has {self.sass}, which {verb} {self.expected} by the PTX"


RULES = (
    ("global loads", r"ld\.global\.", r"LDG(?:\.|\s)", "equal"),
    ("global stores", r"st\.global\.", r"STG(?:\.|\s)", "equal"),
    ("shared loads", r"ld\.(?:volatile\.)?shared(?:::cta)?\.", r"LDS(?:\.|\s)", "equal"),
    ("shared stores", r"st\.shared(?:::cta)?\.", r"STS(?:\.|\s)", "equal"),
    ("barriers", r"bar\.sync\b", r"BAR\.SYNC", "equal"),
    # ptxas makes a value uniform with a SHFL.IDX of its own, so only the others are counted.
    ("shuffles", r"shfl\.sync\.(?:bfly|up|down)", r"SHFL\.(?:BFLY|UP|DOWN)", "equal"),
    ("exponentials", r"ex2\.approx", r"MUFU\.EX2", "equal"),
    ("conversions to fp16", r"cvt\.rn\.f16\.f32", r"F2F\.F16\.F32", "equal"),
    ("fused multiply-adds", r"fma\.rn(?:\.ftz)?\.f32", r"FFMA(?:\.|\s)", "at least"),
)
"""Operation, its PTX opcode, its SASS opcode, and how the counts must relate (sm_70 and sm_75)."""

STEPS = {"f32": 4, "f16": 2}
"""HMMA.884 instructions per m8n8k4, by accumulator type. Source: nvdisasm of what ptxas makes for sm_70."""


def agreements(ptx: str, sass: str) -> tuple[Agreement, ...]:
    """Count every operation in a kernel's PTX and in its disassembly for sm_70 or sm_75.

    >>> agreements("fma.rn.f32 %f1, %f2, %f3, %f4;", "/*0000*/ FFMA R0, R1, R2, R3 ;")[-2].holds
    True
    """
    found = []
    for operation, in_ptx, in_sass, relation in RULES:
        expected = len(re.findall(rf"^\s*(?:@!?%p\d+\s+)?{in_ptx}", ptx, re.MULTILINE))
        if operation == "shared loads":
            expected -= dead_loads(ptx)
        have = len(re.findall(rf"/\s+(?:@!?P\w+\s+)?{in_sass}", sass))
        found.append(Agreement(operation, expected, have, relation))
    tensor = re.findall(r"^\s*mma\.sync\.aligned\.m8n8k4\.\w+\.\w+\.(f32|f16)\.", ptx, re.MULTILINE)
    hmma = len(re.findall(r"/\s+(?:@!?P\w+\s+)?HMMA\.884\.", sass))
    found.append(Agreement("HMMA steps", sum(STEPS[kind] for kind in tensor), hmma, "equal"))
    return tuple(found)


_STATEMENT = re.compile(r"\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s+((?:\{[^{}]*\}|[^{},])*)(.*)")
"""Opcode, first operand, the others."""

_REGISTER = re.compile(r"%\w+")


def dead_loads(ptx: str) -> int:
    """Count the shared loads, volatile ones aside, of which nothing uses any result.

    An instruction uses what it reads; a `mov` does only if one of its own results is used. A text that is no
    statement of one line uses every register that it names.

    >>> dead_loads("ld.shared.b32 %r1, [%r2]; mov.b32 %r3, %r1;")
    1
    >>> dead_loads("ld.shared.b32 %r1, [%r2]; mov.b32 %r3, %r1; st.shared.b32 [%r2], %r3;")
    0
    """
    used: set[str] = set()
    loads: list[set[str]] = []
    copies: list[tuple[set[str], set[str]]] = []
    for text in re.split(r"[;\n]", ptx):
        statement = _STATEMENT.match(text)
        if statement is None or "[" in statement[2] or statement[1].startswith(("bar", "bra", "ret", "exit")):
            used.update(_REGISTER.findall(text))
            continue
        used.update(_REGISTER.findall(text[: statement.start(1)]))
        results, sources = (set(_REGISTER.findall(statement[part])) for part in (2, 3))
        if re.match(r"ld\.shared(?:::cta)?\.", statement[1]):
            loads.append(results)
        if statement[1].startswith("mov."):
            copies.append((results, sources))
        else:
            used |= sources
    while more := {name for results, sources in copies if results & used for name in sources - used}:
        used |= more
    return sum(not results & used for results in loads)
