"""Machine code that decides where threads go on: branches, calls, ends, convergence and block barriers.

A convergence barrier (B0 to B15) is a set of lanes of a warp. BSSY notes the lanes that are there; BSYNC lets none of
them pass before all have come, or ended, or left by BREAK.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import DIVERGED, EXITED, LANES, ExecutionError, Machine, Step
from layoutgen.cpu.sass_code import IMMEDIATE, INSTRUCTION_BYTES, NAME, Instruction
from layoutgen.cpu.sass_operands import TRUE, Operands, Reader

Array = NDArray[Any]


class State:
    """What machine code keeps beside registers: local memory by word, and convergence barriers."""

    def __init__(self) -> None:
        self.local: dict[int, Array] = {}
        self.members: dict[int, Array] = {}
        self.blocked: dict[tuple[int, int], Array] = {}  # (instruction, barrier) -> lanes that wait there

    def note(self, machine: Machine, barrier: int) -> None:
        """BSSY."""
        here = machine.active()
        known = self.members.get(barrier)
        if known is not None and machine.mask is not None:
            warps = np.tile(here.reshape(LANES, machine.warps).any(axis=0), LANES)
            here = np.where(warps, here, known)
        self.members[barrier] = here

    def leave(self, machine: Machine, barrier: int) -> int:
        """BREAK."""
        self.members[barrier] = self.members[barrier] & ~machine.active()
        self.release(machine)
        return DIVERGED

    def meet(self, machine: Machine, barrier: int) -> int | None:
        """BSYNC: who may go on goes on, the others wait."""
        if machine.mask is None:
            return None
        key = (machine.pc, barrier)
        here = machine.active()
        arrived = here | self.blocked.pop(key, np.zeros(1, np.bool_))
        go = arrived & self._complete(machine, barrier, arrived)
        wait = arrived & ~go
        if wait.any():
            self.blocked[key] = wait
        if not go.any():
            return EXITED
        machine.set_mask(go)
        return DIVERGED

    def _complete(self, machine: Machine, barrier: int, arrived: Array) -> Array:
        """Lanes of the warps of which no member is missing."""
        missing = self.members[barrier] & ~arrived
        if machine.exited is not None:
            missing &= ~machine.exited
        return np.tile(~missing.reshape(LANES, machine.warps).any(axis=0), LANES)

    def release(self, machine: Machine) -> None:
        """Let those go on who waited only for lanes that are gone."""
        for (pc, barrier), waiting in list(self.blocked.items()):
            go = waiting & self._complete(machine, barrier, waiting)
            if go.any():
                machine.resume(pc + 1, go)
                del self.blocked[pc, barrier]
                if (waiting & ~go).any():
                    self.blocked[pc, barrier] = waiting & ~go


def _target(instruction: Instruction, end: int) -> int:
    last = instruction.operands[-1] if instruction.operands else None
    if (
        last is None
        or last.kind != IMMEDIATE
        or last.value % INSTRUCTION_BYTES
        or last.value // INSTRUCTION_BYTES >= end
    ):
        raise instruction.refuse("target")
    return last.value // INSTRUCTION_BYTES


def _guard(instruction: Instruction, operands: Operands) -> Reader | None:
    return None if instruction.guard is None else operands.predicate(instruction.guard, instruction)


def decode_branch(instruction: Instruction, operands: Operands, end: int) -> Step:
    """BRA[.U] and CALL.REL.NOINC, whose return address the code has put into a register itself."""
    allowed = {"BRA": ((), ("U",)), "CALL": (("REL", "NOINC"),)}[instruction.opcode]
    if instruction.modifiers not in allowed or instruction.form != "I":
        raise instruction.refuse()
    target, taken = _target(instruction, end), _guard(instruction, operands)
    return lambda machine: machine.branch(None if taken is None else taken(machine), target)


def decode_return(instruction: Instruction, operands: Operands, end: int) -> Step:
    """RET.REL.NODEC Rn 0x0: to the address in a register pair."""
    if instruction.modifiers != ("REL", "NODEC") or instruction.form != "RI" or not instruction.always:
        raise instruction.refuse()
    read, base = operands.wide(instruction.operands[0], instruction), instruction.operands[1].value

    def step(machine: Machine) -> int | None:
        address = (read(machine) + np.uint64(base)).astype(np.int64)
        chosen = np.unique(np.broadcast_to(address, (machine.size,))[machine.active()])
        for place in chosen.tolist():
            if place % INSTRUCTION_BYTES or not 0 <= place // INSTRUCTION_BYTES < end:
                raise ExecutionError(f"{instruction.source}: `{instruction.text}` returns to {place:#x}")
        outcome: int | None = None
        for place in chosen.tolist():
            outcome = machine.branch(address == place, place // INSTRUCTION_BYTES)
        return outcome

    return step


def decode_exit(instruction: Instruction, operands: Operands, end: int) -> Step:  # noqa: ARG001
    """EXIT."""
    if instruction.modifiers or instruction.operands:
        raise instruction.refuse()
    leaving = _guard(instruction, operands)

    def step(machine: Machine) -> int | None:
        outcome = machine.exit(None if leaving is None else leaving(machine))
        if outcome is not None and machine.own.blocked:
            machine.own.release(machine)
        return outcome

    return step


def decode_convergence(instruction: Instruction, operands: Operands, end: int) -> Step:
    """BSSY Bn, target; BSYNC Bn; BREAK Bn."""
    forms = {"BSSY": ("NI",), "BSYNC": ("N",), "BREAK": ("N",)}[instruction.opcode]
    if instruction.modifiers or instruction.form not in forms or instruction.operands[0].kind != NAME:
        raise instruction.refuse()
    name = instruction.operands[0].name
    if name[:1] != "B" or not name[1:].isdigit():
        raise instruction.refuse("barrier")
    barrier = int(name[1:])
    if instruction.opcode == "BREAK":
        return _broken(barrier, _guard(instruction, operands))
    if not instruction.always:
        raise instruction.refuse("under a predicate")
    if instruction.opcode == "BSSY":
        _target(instruction, end)
        return lambda machine: machine.own.note(machine, barrier)
    return lambda machine: machine.own.meet(machine, barrier)


def _broken(barrier: int, guard: Reader | None) -> Step:
    def step(machine: Machine) -> int | None:
        group = machine.mask
        leaving = machine.active() & (TRUE if guard is None else guard(machine))
        if not leaving.any():
            return None
        machine.mask = leaving
        outcome: int = machine.own.leave(machine, barrier)
        machine.mask = group
        return outcome

    return step


def decode_block_barrier(instruction: Instruction, operands: Operands) -> Step:  # noqa: ARG001
    """BAR.SYNC of the whole block. Under a predicate, a block of which only a part arrives is reported."""
    if instruction.modifiers != ("SYNC",) or instruction.form != "I":
        raise instruction.refuse("another barrier than BAR.SYNC of the whole block")
    return lambda machine: machine.block_barrier()
