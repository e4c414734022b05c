"""Machine instruction -> step: one closure an instruction, decoded once a launch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from layoutgen.cpu import sass_bits as bits
from layoutgen.cpu import sass_control as control
from layoutgen.cpu import sass_convert as convert
from layoutgen.cpu import sass_float as floating
from layoutgen.cpu import sass_integer as integer
from layoutgen.cpu import sass_memory as memory
from layoutgen.cpu import sass_move as move
from layoutgen.cpu import sass_warp as warp
from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.sass_code import Code, Instruction
from layoutgen.cpu.sass_operands import Operands, Reader

Decoder = Callable[[Instruction, Operands], Step]
ControlDecoder = Callable[[Instruction, Operands, int], Step]

_UNIFORM: dict[str, Decoder] = {
    "IADD3": integer.decode_iadd3,
    "IMAD": integer.decode_imad,
    "LEA": integer.decode_lea,
    "SHF": bits.decode_shf,
    "LOP3": bits.decode_lop3,
    "PLOP3": bits.decode_plop3,
    "ISETP": integer.decode_isetp,
    "SGXT": bits.decode_sgxt,
    "PRMT": bits.decode_prmt,
    **dict.fromkeys(("POPC", "BREV", "FLO"), bits.decode_bits),
    "MOV": move.decode_mov,
    "SEL": move.decode_sel,
}
"""What the uniform datapath of sm_75 has as well, under the same name with a U before it."""

DECODERS: dict[str, Decoder] = {
    **_UNIFORM,
    **{f"U{name}": decoder for name, decoder in _UNIFORM.items()},
    "IABS": bits.decode_bits,
    "IMNMX": integer.decode_imnmx,
    **dict.fromkeys(("FADD", "FMUL", "FFMA"), floating.decode_arithmetic),
    "FMNMX": floating.decode_fmnmx,
    "FSEL": floating.decode_fsel,
    "FSETP": floating.decode_fsetp,
    "MUFU": floating.decode_mufu,
    **dict.fromkeys(("HADD2", "HMUL2", "HFMA2"), floating.decode_packed),
    "HSETP2": floating.decode_hsetp2,
    "F2F": convert.decode_f2f,
    "F2I": convert.decode_f2i,
    "I2F": convert.decode_i2f,
    "FRND": convert.decode_frnd,
    **dict.fromkeys(("S2R", "S2UR", "CS2R"), move.decode_s2r),
    "R2UR": move.decode_r2ur,
    **dict.fromkeys(("LDC", "ULDC"), move.decode_ldc),
    "P2R": move.decode_p2r,
    "R2P": move.decode_r2p,
    "BMOV": move.decode_bmov,
    **dict.fromkeys(("NOP", "YIELD"), move.decode_nothing),
    "LDG": memory.decode_ldg,
    "STG": memory.decode_stg,
    "LDS": memory.decode_lds,
    "STS": memory.decode_sts,
    "LDL": memory.decode_ldl,
    "STL": memory.decode_stl,
    "SHFL": warp.decode_shfl,
    "VOTE": warp.decode_vote,
    "WARPSYNC": warp.decode_warpsync,
    "HMMA": warp.decode_hmma,
    "BAR": control.decode_block_barrier,
}
"""Opcode -> who decodes it. Everything else is unsupported."""

CONTROL: dict[str, ControlDecoder] = {
    **dict.fromkeys(("BRA", "CALL"), control.decode_branch),
    "RET": control.decode_return,
    "EXIT": control.decode_exit,
    **dict.fromkeys(("BSSY", "BSYNC", "BREAK"), control.decode_convergence),
}
"""Those that see to their own guard, and need to know where the code ends."""


def decode(instruction: Instruction, operands: Operands, end: int) -> Step:
    """The step that executes `instruction` of `end` ones. Raises UnsupportedCodeError for a form that is not known."""
    if instruction.never:
        return lambda _machine: None
    try:
        if instruction.opcode in CONTROL:
            return CONTROL[instruction.opcode](instruction, operands, end)
        decoder = DECODERS.get(instruction.opcode)
        if decoder is None:
            raise instruction.refuse()
        step = decoder(instruction, operands)
    except (IndexError, KeyError, ValueError) as error:  # too few operands or modifiers for the form
        raise instruction.refuse() from error
    if instruction.guard is not None and not instruction.always:
        step = _guarded(step, operands.predicate(instruction.guard, instruction))
    return memory.in_order(step) if instruction.opcode in ("LDS", "STS") else step


def _guarded(step: Step, guard: Reader) -> Step:
    def run(machine: Machine) -> None:
        holds = guard(machine)
        if holds.size == 1:
            if holds[0]:
                step(machine)
            return
        group = machine.mask
        mask = holds if group is None else holds & group
        active = np.count_nonzero(mask)
        if not active:
            return
        machine.mask = None if active == mask.size else mask
        try:
            step(machine)
        finally:
            machine.mask = group

    return run


def decode_code(code: Code, operands: Operands) -> list[Step]:
    """The steps of a whole kernel."""
    return [decode(instruction, operands, len(code.instructions)) for instruction in code.instructions]
