"""What counting can show of the way from PTX to SASS: whether ptxas kept what it must keep.

ptxas may contract a multiplication and an addition into one FFMA, and expand divisions and square roots into
approximations with corrections, so there may be more FFMA than fma; fewer means that one was lost. Memory accesses,
barriers, shuffles, exponentials, conversions to fp16 and tensor-core instructions are neither merged nor dropped in
straight code: a difference is worth a look, though unrolling and moving code out of a branch cause it too.
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
    ("shared loads", r"ld\.shared(?:::cta)?\.", r"LDS(?:\.|\s)", "equal"),
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
        have = len(re.findall(rf"/\s+(?:@!?P\w+\s+)?{in_sass}", sass))
        found.append(Agreement(operation, expected, have, relation))
    tensor = re.findall(r"^\s*mma\.sync\.aligned\.m8n8k4\.\w+\.\w+\.(f32|f16)\.", ptx, re.MULTILINE)
    hmma = len(re.findall(r"/\s+(?:@!?P\w+\s+)?HMMA\.884\.", sass))
    found.append(Agreement("HMMA steps", sum(STEPS[kind] for kind in tensor), hmma, "equal"))
    return tuple(found)
