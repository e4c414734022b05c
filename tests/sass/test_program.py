"""Decoding against nvdisasm's own JSON and encodings, and lines against the PTX that the code was made from."""

import json
import re
from collections import Counter

import pytest

from layoutgen import LayoutgenError
from layoutgen.cpu import parse_ptx
from layoutgen.sass import decode
from layoutgen.sass.control import Control
from layoutgen.sass.operand import Address, Constant, Immediate, Name, Predicate, Register, parse_operand
from layoutgen.sass.program import Instruction, Program
from layoutgen.toolchain.binaries import assemble, disassemble, run_tool, tool
from layoutgen.toolchain.elf import sections

KERNELS = [("attention_d96_64x32", "sm_70"), ("matmul_64x64x32", "sm_70"), ("matmul_64x64x32", "sm_75")]


@pytest.mark.parametrize(("text", "want"), [
    ("R12", Register(12)),
    ("RZ", Register(255)),
    ("-R3.reuse", Register(3, negated=True)),
    ("|R4|", Register(4, absolute=True)),
    ("-|R4.reuse|", Register(4, negated=True, absolute=True)),
    ("~R9", Register(9, inverted=True)),
    ("R94.reuse.ROW", Register(94, modifiers=("ROW",))),
    ("-UR19", Register(19, negated=True, uniform=True)),
    ("URZ", Register(63, uniform=True)),
    ("!P3", Predicate(3, negated=True)),
    ("PT", Predicate(7)),
    ("UP0", Predicate(0, uniform=True)),
    ("0x1f", Immediate(31)),
    ("-0x4", Immediate(-4)),
    ("1.4426950216293334961", Immediate(1.4426950216293334961)),
    ("-INF", Immediate(float("-inf"))),
    ("c[0x0][0x160]", Constant(0, 0x160)),
    ("-c[0x3][R4+0x8]", Constant(3, 8, index=4, negated=True)),
    ("[R2]", Address(2, 0)),
    ("[R2+-0x10]", Address(2, -16)),
    ("[R2.X4+0x40]", Address(2, 64, ("X4",))),
    ("[R2.64+UR4+0x8]", Address(2, 8, ("64",), 4)),
    ("[0x20]", Address(255, 32)),
    ("SR_TID.X", Name("SR_TID.X")),
])  # fmt: skip
def test_operands(text, want):
    assert parse_operand(text) == want


@pytest.mark.parametrize("text", ["", "R", "R2 R3", "P9x", "[Q2]", "c[0]", "0xzz", "?"])
def test_what_is_no_operand_is_refused(text):
    with pytest.raises(LayoutgenError, match="no known form"):
        parse_operand(text)


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_every_instruction_is_what_nvdisasm_prints(compiled, program, tmp_path, name, arch):
    _, found = compiled(name, arch)
    raw = tmp_path / "kernel.bin"
    raw.write_bytes(sections(found.cubin)[f".text.{found.kernel}"])
    printed = json.loads(run_tool([tool("nvdisasm"), "-json", "-b", "SM75", str(raw)]))[1][0]["sass-instructions"]
    instructions = program(name, arch).instructions
    assert len(instructions) == len(printed)
    for ours, theirs in zip(instructions, printed, strict=True):
        assert ours.name == theirs["opcode"]
        guard = "" if ours.guard is None else ours.text.split()[0]
        assert guard == theirs.get("predicate", "")
        listed = re.sub(
            r"(?<=\w)\[(?=R|UR)", ",[", theirs.get("operands", "")
        )  # the JSON has no comma before an address
        wanted = [part for part in listed.split(",") if part]
        assert len(ours.operands) == len(wanted)
        for operand, text in zip(ours.operands, wanted, strict=True):
            assert operand == parse_operand(text.strip())


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_every_encoding_is_what_nvdisasm_prints(compiled, program, tmp_path, name, arch):
    _, found = compiled(name, arch)
    raw = tmp_path / "kernel.bin"
    raw.write_bytes(sections(found.cubin)[f".text.{found.kernel}"])
    halves = [int(word, 16) for word in re.findall(
        r"/\* (0x[0-9a-f]{16}) \*/", run_tool([tool("nvdisasm"), "-hex", "-b", "SM75", str(raw)])
    )]  # fmt: skip
    low, high = halves[::2], halves[1::2]
    assert [i.encoding for i in program(name, arch).instructions] == [
        upper << 64 | lower for lower, upper in zip(low, high, strict=True)
    ]


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_lines_of_mma_and_shared_loads_are_those_of_the_ptx(compiled, program, name, arch):
    _, found = compiled(name, arch)
    wanted = Counter(i.source.line for i in parse_ptx(found.ptx).instructions if i.op[0] == "mma")
    have = Counter(
        i.source.own.line for i in program(name, arch).instructions if i.opcode == "HMMA" and "STEP0" in i.modifiers
    )
    assert have == wanted
    wanted = Counter(i.source.line for i in parse_ptx(found.ptx).instructions if i.name.startswith("ld.shared"))
    have = Counter(i.source.own.line for i in program(name, arch).instructions if i.opcode == "LDS")
    assert have == wanted


def test_inlined_lines_name_the_function_and_the_call(compiled, program):
    file, _ = compiled("attention_d96_64x32")
    text = file.source.splitlines()
    hmma = next(i for i in program("attention_d96_64x32").instructions if i.opcode == "HMMA")
    assert "gl.inline_asm_elementwise(" in text[hmma.source.line - 1]
    assert "mma(" in text[hmma.source.outermost.line - 1]
    assert str(hmma.source).count("attention_d96_64x32.py") == 2


@pytest.mark.parametrize(("name", "arch"), KERNELS)
def test_the_main_loop_does_all_the_mma(compiled, program, name, arch):
    _, found = compiled(name, arch)
    loop = program(name, arch).main_loop
    assert loop.count("HMMA") == found.hmma
    assert loop.body[-1].target == loop.start
    assert not any(branch.target for branch in loop.forward_branches)


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_code_of_every_optimisation_level_is_decoded(compiled, level):
    for arch in ("sm_70", "sm_75"):
        _, found = compiled("attention_d96_64x32", arch)
        cubin, _ = assemble(found.ptx, arch, (level,))
        program = decode(found.kernel, arch, disassemble(cubin, found.kernel, arch), cubin)
        assert program.main_loop.count("HMMA") == found.hmma
        assert {i.opcode for i in program.instructions} >= {"HMMA", "LDS", "STS", "BAR", "EXIT"}


def test_another_kernels_cubin_is_refused(compiled):
    _, one = compiled("attention_d96_64x32")
    _, other = compiled("matmul_64x64x32")
    with pytest.raises(LayoutgenError, match="holds no code for attention_kernel"):
        decode(one.kernel, one.arch, one.sass, other.cubin)


def test_text_of_other_code_is_refused(compiled):
    _, one = compiled("attention_d96_64x32")
    lines = one.sass.splitlines()
    first = next(number for number, line in enumerate(lines) if "/*0010*/" in line)
    with pytest.raises(LayoutgenError, match="instruction 1 is printed at 0x20"):
        decode(one.kernel, one.arch, "\n".join(lines[:first] + lines[first + 1 :]), one.cubin)
    with pytest.raises(LayoutgenError, match="1 instructions were read of"):
        decode(one.kernel, one.arch, "\n".join(lines[:first]), one.cubin)


def test_of_loops_that_do_the_same_work_the_main_one_is_the_shortest():
    """A loop over tiles that need masks does what the loop over whole tiles does, and more."""

    def instructions(first, names):
        for position, name in enumerate(names, first):
            backward = (Immediate(16 * first),) if name == "BRA" else ()
            yield Instruction(16 * position, name, (), backward, None, Control.decode(0), 0, name)

    masked = ["HMMA", "FSEL", "FSEL", "BRA"]
    whole = ["HMMA", "BRA"]
    code = Program("kernel", "sm_70", (*instructions(0, masked), *instructions(4, whole), *instructions(6, whole)))
    assert len(code.loops) == 3
    assert code.main_loop.start == 16 * 4
