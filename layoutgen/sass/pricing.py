"""What an instruction costs: which port it keeps busy for how long, and when its result can be used.

Opcodes are looked up in one table; an opcode that is not in it has no price, and is reported by whoever asked.
Sources and assumptions of the numbers stand in the hardware profile beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutgen.profiles.model import Model
from layoutgen.sass.program import Instruction

PORTS = ("tensor", "fma", "alu", "xu", "uniform", "lsu", "none")
"""Ports of a sub-core; `lsu` is the queue that the four sub-cores of an SM share, `none` takes an issue slot only."""

PIPES = {
    "tensor": "HMMA",
    "half": "HADD2 HFMA2 HMUL2 HSET2 HSETP2",
    "fma": "FADD FMUL FFMA FADD32I FMUL32I FFMA32I IMAD IMAD32I",
    "alu": (
        "MOV MOV32I IADD IADD3 IADD32I LOP LOP3 LOP32I PLOP3 LEA SHF SHL SHR SEL FSEL PRMT SGXT BMSK IABS IMNMX FMNMX "
        "ISETP FSETP FSET PSETP P2R R2P CS2R VABSDIFF VABSDIFF4 FSWZADD"
    ),
    "xu": "MUFU F2F F2I I2F FRND POPC FLO BREV",
    "shared": "LDS STS",
    "shuffle": "SHFL",
    "global": "LDG STG LD ST",
    "local": "LDL STL",
    "special": "S2R LDC VOTE",
    "uniform": (
        "UMOV UIADD3 ULOP3 ULEA USHF USEL UPRMT UIMAD UISETP UPLOP3 UFLO UPOPC UBREV USGXT UBMSK ULDC R2UR S2UR VOTEU"
    ),
    "barrier": "BAR",
    "flow": "BRA NOP EXIT BSSY BSYNC WARPSYNC YIELD",
}
"""Pipe -> its opcodes."""

PIPE_OF = {opcode: pipe for pipe, opcodes in PIPES.items() for opcode in opcodes.split()}

PORT_OF = {
    "tensor": "tensor",
    "half": "tensor",
    "fma": "fma",
    "alu": "alu",
    "xu": "xu",
    "uniform": "uniform",
    "shared": "lsu",
    "shuffle": "lsu",
    "global": "lsu",
    "local": "lsu",
}
"""Pipe -> the port that it occupies; pipes that are not here occupy none."""


@dataclass(frozen=True)
class Price:
    """One instruction's cost. `cycles` are those of the port: for `lsu` of the shared queue, else of the sub-core's."""

    pipe: str
    port: str
    cycles: float
    latency: int


def width_words(instruction: Instruction) -> int:
    """Return how many 32-bit words a lane moves in a memory access.

    The width is the modifier that is a number of bits; without one it is 32 bits or less.
    """
    return 4 if "128" in instruction.modifiers else 2 if "64" in instruction.modifiers else 1


def price(instruction: Instruction, model: Model, wavefronts: float | None = None) -> Price | None:
    """Return the price of an instruction, or None for an opcode that the model does not know.

    `wavefronts` is the exact count of a shared access (LDS, STS), which is priced by nothing else: without it those
    have no price either.
    """
    pipe = PIPE_OF.get(instruction.opcode)
    if pipe is None or (pipe == "tensor" and not instruction.modifiers[-1].startswith("STEP")):
        return None
    port = PORT_OF.get(pipe, "none")
    if instruction.never and port != "lsu":
        return Price(pipe, "none", 0, 0)
    if pipe == "shared":
        if wavefronts is None:
            return None
        return Price(pipe, port, wavefronts / model.shared_efficiency, model.latency["shared"])
    if port == "lsu":
        return Price(pipe, port, width_words(instruction), model.latency[pipe])
    if pipe == "fma" and not {"WIDE", "HI"}.isdisjoint(instruction.modifiers):
        return Price(pipe, port, model.cycles["fma_wide"], 0)
    latency = model.latency.get("tensor" if pipe == "half" else pipe, 0)
    return Price(pipe, port, model.cycles.get(pipe, 0), latency)
