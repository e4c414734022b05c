"""Instruction -> step: one closure an instruction, decoded once a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from layoutgen.cpu import ptx_convert, ptx_float, ptx_integer, ptx_memory, ptx_warp, watch
from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.ptx_flow import unread_undefined
from layoutgen.cpu.ptx_operands import GARBAGE, Reader, Slots
from layoutgen.cpu.ptx_program import Instruction, Program, UnsupportedInstructionError
from layoutgen.cpu.ptx_types import is_float

Decoder = Callable[[Instruction, Slots], Step]


def _by_type(for_float: Decoder, for_integer: Decoder) -> Decoder:
    def decode(instruction: Instruction, slots: Slots) -> Step:
        kind = instruction.op[-1]
        return (for_float if is_float(kind) or kind.endswith("x2") else for_integer)(instruction, slots)

    return decode


def _copy(instruction: Instruction, slots: Slots) -> Step:
    if instruction.op not in (("cvta", "to", "global", "u64"), ("cvta", "global", "u64")):
        raise UnsupportedInstructionError(instruction.text)
    return ptx_integer.compute(instruction, slots, ["u64"], "u64", lambda a: a)


_arithmetic = _by_type(ptx_float.decode_arithmetic, ptx_integer.decode_arithmetic)
_unary = _by_type(ptx_float.decode_unary, ptx_integer.decode_unary)

DECODERS: dict[str, Decoder] = {
    **dict.fromkeys(("add", "sub", "min", "max"), _arithmetic),
    **dict.fromkeys(("and", "or", "xor", "rem"), ptx_integer.decode_arithmetic),
    "mul": _by_type(ptx_float.decode_arithmetic, ptx_integer.decode_multiply),
    "mad": _by_type(ptx_float.decode_fma, ptx_integer.decode_multiply),
    "fma": ptx_float.decode_fma,
    "div": _by_type(ptx_float.decode_divide, ptx_integer.decode_arithmetic),
    **dict.fromkeys(("neg", "abs"), _unary),
    **dict.fromkeys(("not", "cnot", "clz", "popc", "brev"), ptx_integer.decode_unary),
    **dict.fromkeys(("shl", "shr"), ptx_integer.decode_shift),
    "shf": ptx_integer.decode_funnel,
    **dict.fromkeys(("bfe", "bfi"), ptx_integer.decode_bit_field),
    "prmt": ptx_integer.decode_permute,
    "lop3": ptx_integer.decode_lop3,
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh", "rcp", "sqrt", "rsqrt"), ptx_float.decode_unary),
    "copysign": ptx_float.decode_copysign,
    "setp": ptx_float.decode_setp,
    "selp": ptx_float.decode_selp,
    "cvt": ptx_convert.decode_convert,
    "cvta": _copy,
    "mov": ptx_convert.decode_move,
    "ld": ptx_memory.decode_load,
    "st": ptx_memory.decode_store,
    "bra": ptx_warp.decode_branch,
    **dict.fromkeys(("ret", "exit"), ptx_warp.decode_return),
    "trap": ptx_warp.decode_trap,
    **dict.fromkeys(("membar", "fence"), ptx_warp.decode_fence),
    **dict.fromkeys(("bar", "barrier"), ptx_warp.decode_barrier),
    "shfl": ptx_warp.decode_shuffle,
    **dict.fromkeys(("vote", "activemask"), ptx_warp.decode_vote),
    "mma": ptx_warp.decode_mma,
}
"""The first part of an opcode -> who decodes it. Everything else is unsupported."""

_OWN_GUARD = ("bra", "ret", "exit")


def decode(instruction: Instruction, slots: Slots) -> Step:
    """The step that executes `instruction`. Raises UnsupportedInstructionError for a form that is not
    known."""
    decoder = DECODERS.get(instruction.op[0])
    if decoder is None:
        raise UnsupportedInstructionError(instruction.text)
    try:
        step = decoder(instruction, slots)
    except (IndexError, KeyError, ValueError) as error:  # too few operands or modifiers for the form
        raise UnsupportedInstructionError(instruction.text) from error
    if instruction.guard is None or instruction.op[0] in _OWN_GUARD:
        return step
    return _guarded(step, slots.read(instruction.guard, "pred", instruction))


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


def _first_time(code: list[Step], pc: int, step: Step, sources: Sequence[int], slots: Slots) -> Step:
    """Wrap `step`: on its first execution look whether a register that it reads was ever written."""
    garbage = {id(value) for value in GARBAGE.values()}

    def run(machine: Machine) -> int | None:
        code[pc] = step
        for slot in sources:
            if id(machine.regs[slot]) in garbage:
                _report_unwritten(machine, slots.name(slot))
        return step(machine)

    return run


def _report_unwritten(machine: Machine, name: str) -> None:
    machine.report(watch.UNINITIALISED, machine.active(), lambda: f"register {name} is read before it is written", name)


@dataclass(frozen=True)
class Decoded:
    """A program's steps, and the registers of each that must have been written before its first execution."""

    slots: Slots
    steps: tuple[Step, ...]
    sources: tuple[tuple[int, ...], ...]

    def watched(self) -> list[Step]:
        """Return the steps for one launch, each of which first checks its source registers once."""
        code: list[Step] = []
        for pc, (step, sources) in enumerate(zip(self.steps, self.sources, strict=True)):
            code.append(_first_time(code, pc, step, sources, self.slots))
        return code


@lru_cache(maxsize=16)
def decode_program(program: Program) -> Decoded:
    """Decode a whole program. Source registers whose undefined bits go nowhere are left out of the checks."""
    slots, steps, every = Slots(program), [], []
    unread = unread_undefined(program)
    for pc, instruction in enumerate(program.instructions):
        steps.append(decode(instruction, slots))
        sources = slots.sources(instruction)
        if pc in unread:
            sources = [slot for slot in sources if slots.name(slot) not in unread[pc]]
        every.append(tuple(sources))
    return Decoded(slots, tuple(steps), tuple(every))
