"""The scoreboard check: silent on what ptxas makes, and heard on what it would not make."""

import dataclasses

import pytest

from layoutgen.errors import LayoutgenError
from layoutgen.sass.effects import effects
from layoutgen.sass.hazards import LATENCY, Checker, hazards, least_distances, successors, warnings
from tests.committed import GENERATED

NAMES = ("attention_d96_64x32", "attention_d64_64x32", "attention_d40_64x32", "matmul_64x64x32")
ALL = (*NAMES, *(pytest.param(path.stem, marks=pytest.mark.sweep) for path in GENERATED if path.stem not in NAMES))


def changed(program, number, **control):
    """The program with one control code changed."""
    instructions = list(program.instructions)
    one = instructions[number]
    instructions[number] = dataclasses.replace(one, control=dataclasses.replace(one.control, **control))
    return dataclasses.replace(program, instructions=tuple(instructions))


@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
@pytest.mark.parametrize("name", ALL)
def test_nothing_is_said_of_what_ptxas_made(program, name, arch):
    assert [str(hazard) for hazard in hazards(program(name, arch))] == []


@pytest.mark.parametrize("name", ALL)
def test_latencies_are_the_fewest_that_kernels_show(program, name):
    for pipes, cycles in least_distances(program(name)).items():
        assert cycles >= LATENCY[pipes], pipes


def test_effects_of_wide_instructions(program):
    found = {}
    for instruction in program("attention_d96_64x32").instructions:
        found.setdefault(instruction.name, (instruction, effects(instruction)))
    instruction, hmma = found["HMMA.884.F32.F32.STEP1"]
    d, a, b, c = (operand.index for operand in instruction.operands)
    assert hmma.writes == {("R", d), ("R", d + 1)}
    assert hmma.reads == {("R", r + n) for r in (a, b, c) if r != 255 for n in (0, 1)}
    instruction, load = found["LDG.E.128.SYS"]
    base = instruction.operands[0].index
    assert load.writes == {("R", base + n) for n in range(4)}
    assert load.guard == {("P", instruction.guard.index)}
    instruction, store = found["STS.128"]
    assert len(store.reads) == 5
    assert not store.writes


def test_an_opcode_of_unknown_effects_is_named(program):
    one = dataclasses.replace(program("matmul_64x64x32").instructions[0], opcode="ATOMG", text="ATOMG R1", guard=None)
    with pytest.raises(LayoutgenError, match=r"ATOMG R1.*nothing is known"):
        effects(one)
    kernel = dataclasses.replace(program("matmul_64x64x32"), instructions=(one,))
    assert warnings(kernel)[0].startswith("not checked: effects: `ATOMG R1`")


def test_a_branch_leads_to_both_sides(program):
    kernel = program("matmul_64x64x32")
    following = successors(kernel)
    for number, instruction in enumerate(kernel.instructions):
        if instruction.target is not None:
            assert instruction.target // 16 in following[number]
            assert (number + 1 in following[number]) == (not instruction.always)


# What must be heard ---------------------------------------------------------------------------------------


def test_a_loop_that_does_not_wait_for_its_shared_loads(program):
    kernel = program("matmul_64x64x32")
    first = next(
        n for n, i in enumerate(kernel.instructions)
        if i.opcode == "HMMA" and i.control.wait and kernel.instructions[n - 1].opcode != "HMMA"
    )  # fmt: skip
    found = hazards(changed(kernel, first, wait=()))
    heard = [hazard for hazard in found if hazard.instruction.address == kernel.instructions[first].address]
    assert heard
    assert {hazard.producer.opcode for hazard in heard} == {"LDS"}
    assert any("SB" in hazard.why or "no barrier says when" in hazard.why for hazard in heard), heard


def test_a_special_register_without_a_barrier(program):
    kernel = program("matmul_64x64x32")
    last = max(n for n, i in enumerate(kernel.instructions) if i.opcode == "S2R")
    assert any(hazard.producer.opcode == "S2R" for hazard in hazards(changed(kernel, last, write=None)))


def test_a_guard_that_comes_too_soon(program):
    kernel = program("attention_d96_64x32")
    uses = [u for u in Checker(kernel).uses() if u[0] == ("alu predicate", "guard") and u[4] == 12]
    assert uses
    _, consumer, _, producer, _ = uses[0]
    slow = max(range(producer, consumer), key=lambda n: kernel.instructions[n].control.stall)
    found = hazards(changed(kernel, slow, stall=1))
    assert any("12 are the fewest seen" in hazard.why for hazard in found), [*map(str, found)]


def test_an_operand_that_is_overwritten_before_it_is_read(program):
    kernel = program("attention_d96_64x32")
    reading = [
        number
        for number, instruction in enumerate(kernel.instructions)
        if instruction.control.read is not None and instruction.opcode in ("STS", "LDG", "STG")
    ]
    # Of most of them the registers stay what they are: one that is overwritten is enough.
    assert any(
        "may not have been read" in hazard.why
        for number in reading
        for hazard in hazards(changed(kernel, number, read=None))
    )
