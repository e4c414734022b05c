"""Machine code as values, without a compiler: divergence, forms that stop the run, undefined registers, memory."""

from __future__ import annotations

import numpy as np
import pytest

from layoutgen.cpu import Code, ExecutionError, Tensor, UnsupportedCodeError, launch_code
from layoutgen.cpu.sass_code import PT, RZ, Instruction, Operand, Parameter

POINTER = Parameter(0x160, "u64")


def r(number, *modifiers, **flags):
    return Operand("R", number, modifiers=modifiers, **flags)


def p(number, negated=False):
    return Operand("P", number, negated)


def i(value):
    return Operand("I", value & 0xFFFFFFFF)


def c(offset):
    return Operand("C", offset)


def at(base, offset=0):
    return Operand("A", offset, base=base)


def name(text):
    return Operand("N", name=text)


ZERO, TRUE, FALSE = r(RZ), p(PT), p(PT, True)
ADDRESS = [
    ("S2R", (r(0), name("SR_TID.X"))),
    ("MOV", (r(9), i(4))),
    ("IMAD.WIDE.U32", (r(2), r(0), r(9), c(0x160))),
]
"""R0 is the thread, R2 and R3 the address of its word of the output."""
STORE = ("STG.E.SYS", (at(2), r(4)))
END = ("EXIT", ())


def code(*lines):
    """Code of (opcode with modifiers, operands[, guard]) lines."""
    instructions = []
    for number, (opcode, operands, *guard) in enumerate(lines):
        head, *modifiers = opcode.split(".")
        instructions.append(
            Instruction(
                16 * number, head, tuple(modifiers), operands, guard[0] if guard else None, f"{opcode} #{number}"
            )
        )
    return Code("test", "sm_70", tuple(instructions), (POINTER,))


def run(*lines, threads=32, clean=True, **options):
    out = Tensor.output("o", (threads,), "u4")
    report = launch_code(code(*lines), 1, threads // 32, [out], **options)
    assert report.clean == clean, str(report)
    return out.array if clean else report


def target(number):
    return i(16 * number)


THREAD = np.arange(32, dtype=np.uint32)


def test_threads_write_their_numbers():
    assert (run(*ADDRESS, ("MOV", (r(4), r(0))), STORE, END) == THREAD).all()


def test_a_guard_keeps_lanes_from_writing_a_register():
    got = run(
        *ADDRESS,
        ("ISETP.LT.AND", (p(0), p(1), r(0), i(10), TRUE)),
        ("MOV", (r(4), i(7))),
        ("MOV", (r(4), i(1)), p(0)),
        ("MOV", (r(4), i(2)), p(1)),
        STORE,
        END,
    )
    assert (got == np.where(THREAD < 10, 1, 2)).all()


def test_lanes_meet_at_bsync_though_one_side_lies_behind_it():
    """The side that is out of line comes last by address: without the barrier the shuffle would lack its lanes."""
    first = len(ADDRESS)
    got = run(
        *ADDRESS,
        ("ISETP.LT.AND", (p(0), TRUE, r(0), i(10), TRUE)),  # first
        ("MOV", (r(4), r(0))),
        ("BSSY", (name("B0"), target(first + 5))),
        ("BRA", (target(first + 9),), p(0)),
        ("IADD3", (r(4), r(4), i(100), ZERO)),
        ("BSYNC", (name("B0"),)),  # first + 5
        ("SHFL.BFLY", (TRUE, r(4), r(4), i(31), i(31))),
        STORE,
        END,
        ("IADD3", (r(4), r(4), i(500), ZERO)),  # first + 9
        ("BRA", (target(first + 5),)),
    )
    alone = np.where(THREAD < 10, THREAD + 500, THREAD + 100)
    assert (got == alone[::-1]).all()


def test_lanes_that_end_are_not_waited_for():
    first = len(ADDRESS)
    report = run(
        *ADDRESS,
        ("ISETP.LT.AND", (p(0), TRUE, r(0), i(10), TRUE)),
        ("MOV", (r(4), i(3))),
        ("BSSY", (name("B0"), target(first + 4))),
        ("BRA", (target(first + 7),), p(0)),
        ("BSYNC", (name("B0"),)),
        STORE,
        END,
        END,
        clean=False,
    )  # fmt: skip
    assert [finding.kind for finding in report.findings] == ["unwritten"]
    assert report.findings[0].count == 10


def test_lanes_that_never_come_are_a_deadlock():
    first = len(ADDRESS)
    with pytest.raises(ExecutionError, match=r"wait for ever at `BSYNC"):
        run(
            *ADDRESS,
            ("ISETP.LT.AND", (p(0), TRUE, r(0), i(10), TRUE)),
            ("BSSY", (name("B0"), target(first + 3))),
            ("BRA", (target(first + 5),), p(0)),
            ("BSYNC", (name("B0"),)),
            END,
            ("BSSY", (name("B1"), target(first + 6))),
            ("BSYNC", (name("B0"),)),
            END,
        )


def test_a_call_comes_back_to_the_address_in_the_register():
    first = len(ADDRESS)
    got = run(
        *ADDRESS,
        ("MOV", (r(6), i(16 * (first + 3)))),
        ("MOV", (r(7), ZERO)),
        ("CALL.REL.NOINC", (target(first + 5),)),
        STORE,  # first + 3
        END,
        ("MOV", (r(4), i(42))),
        ("RET.REL.NODEC", (r(6), i(0))),
    )
    assert (got == 42).all()


@pytest.mark.parametrize("fill", [0, 1])
def test_an_undefined_register_holds_the_fill(fill):
    got = run(*ADDRESS, STORE, END, fill=fill)
    other = run(*ADDRESS, STORE, END, fill=1 - fill)
    assert (got != other).all()


def test_the_high_half_of_a_conversion_to_fp16_is_undefined():
    lines = (*ADDRESS, ("F2F.F16.F32", (r(4), r(0))), STORE, END)
    first, second = run(*lines, fill=0), run(*lines, fill=1)
    assert (first & 0xFFFF == second & 0xFFFF).all()
    assert (first >> 16 != second >> 16).all()


def test_what_was_spilled_comes_back_and_what_was_not_is_undefined():
    lines = (
        *ADDRESS,
        ("MOV", (r(1), c(0x28))),
        ("STL", (at(1, -16), r(0)), p(PT)),
        ("LDL", (r(4), at(1, -16))),
        STORE,
        END,
    )
    assert (run(*lines) == THREAD).all()
    unwritten = tuple(line for line in lines if line[0] != "STL")
    assert (run(*unwritten, fill=0) != run(*unwritten, fill=1)).all()


@pytest.mark.parametrize(
    ("size", "offset", "reload", "want"),
    [
        ("S16", -16, "LDL", lambda x: 0x5A5A0000 | x),
        ("S16", -14, "LDL", lambda x: x << 16 | 0x5A5A),
        ("U8", -13, "LDL", lambda x: (x & 0xFF) << 24 | 0x5A5A5A),
        ("S16", -14, "LDL.S16", lambda x: x),
        ("U8", -15, "LDL.U8", lambda x: x & 0xFF),
    ],
)
def test_a_spilled_part_of_a_word_leaves_the_rest_of_it(size, offset, reload, want):
    """The word is written whole first; a part is then stored, and the word or the part comes back."""
    where = -16 if reload == "LDL" else offset
    lines = (
        *ADDRESS,
        ("MOV", (r(1), c(0x28))),
        ("MOV", (r(5), i(0x5A5A5A5A))),
        ("STL", (at(1, -16), r(5))),
        (f"STL.{size}", (at(1, offset), r(0))),
        (reload, (r(4), at(1, where))),
        STORE,
        END,
    )
    assert (run(*lines) == want(THREAD)).all()


def test_an_address_with_a_wrong_high_half_is_out_of_bounds():
    report = run(*ADDRESS, ("IADD3", (r(3), r(3), i(1), ZERO)), ("MOV", (r(4), r(0))), STORE, END, clean=False)
    assert "out of bounds" in {finding.kind for finding in report.findings}


def test_shared_accesses_of_a_converged_warp_are_in_order_and_those_of_two_warps_race():
    """Every thread writes a word and reads its neighbour's, without a barrier."""
    lines = (
        *ADDRESS,
        ("SHF.L.U32", (r(5), r(0), i(2), ZERO)),
        ("LOP3.LUT", (r(6), r(5), i(4), ZERO, i(0x3C), FALSE)),
        ("STS", (at(5), r(0))),
        ("LDS.U", (r(4), at(6))),
        STORE,
        END,
    )
    assert (run(*lines, shared_bytes=256) == (THREAD ^ 1)).all()
    across = tuple(
        ("LOP3.LUT", (r(6), r(5), i(128), ZERO, i(0x3C), FALSE)) if line[0] == "LOP3.LUT" else line for line in lines
    )
    report = run(*across, threads=64, shared_bytes=256, clean=False)
    assert report.races


def first(count):
    """P0 of the first threads."""
    return ("ISETP.LT.AND", (p(0), TRUE, r(0), i(count), TRUE))


def test_a_guarded_product_is_one_of_whole_warps():
    """Sums of four products of ones, with one guard for each of two warps; then one that parts a warp."""
    ones = [("MOV", (r(n), i(0x3C003C00))) for n in range(10, 14)]

    def lines(count):
        product = ("HMMA.884.F32.F32.STEP0", (r(4), r(10, "ROW"), r(12, "COL"), r(RZ)), p(0))
        return (*ADDRESS, *ones, ("MOV", (r(4), i(7))), first(count), product, STORE, END)

    got = run(*lines(32), threads=64)
    assert (got[:32].view(np.float32) == 4).all()
    assert (got[32:] == 7).all()
    report = run(*lines(10), threads=64, clean=False)
    assert {finding.kind for finding in report.findings} == {"divergence"}


def test_a_guarded_barrier_holds_when_the_whole_block_takes_it():
    def lines(count):
        """Every thread writes a word and reads another warp's."""
        return (
            *ADDRESS,
            ("SHF.L.U32", (r(5), r(0), i(2), ZERO)),
            ("LOP3.LUT", (r(6), r(5), i(128), ZERO, i(0x3C), FALSE)),
            ("STS", (at(5), r(0))),
            first(count),
            ("BAR.SYNC", (i(0),), p(0)),
            ("LDS.U", (r(4), at(6))),
            STORE,
            END,
        )

    assert (run(*lines(64), threads=64, shared_bytes=256) == (np.arange(64) ^ 32)).all()
    kinds = {finding.kind for finding in run(*lines(32), threads=64, shared_bytes=256, clean=False).findings}
    assert "divergence" in kinds
    assert run(*lines(0), threads=64, shared_bytes=256, clean=False).races


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (("FROB.X", (r(4),)), "FROB.X #0"),
        (("IADD3.XX", (r(4), r(0), r(0), r(0))), "IADD3.XX #0"),
        (("IADD3", (r(4), r(0), r(0))), "IADD3 #0"),
        (("MOV", (r(4), p(0))), "operand of another kind"),
        (("IADD3", (r(4), r(0), p(0), ZERO)), "IADD3 #0"),
        (("FADD", (r(4), r(0, "H1_H1"), r(0))), "float operand with a modifier"),
        (("MOV", (r(4), c(0x40))), r"nothing is known of c\[0x0\]\[0x40\]"),
        (("LDG.E.SYS", (r(4), at(RZ))), "without a register"),
        (("LDS.128", (r(253), at(0))), "over the register file's end"),
        (("BRA", (i(0x1000),)), "target"),
        (("S2R", (r(0), name("SR_CLOCKLO"))), "SR_CLOCKLO"),
        (("LOP3.LUT", (r(4), r(0), r(1), r(2), i(0xC0), p(0))), "joins in"),
        (("BAR.RED.AND", (i(0),)), "another barrier"),
        (("HMMA.16816.F32", (r(4), r(0), r(2), r(4))), "HMMA.16816"),
    ],
)  # fmt: skip
def test_what_is_not_known_stops_the_run(line, why):
    with pytest.raises(UnsupportedCodeError, match=why):
        run(line, END)


def test_what_is_never_executed_needs_no_form():
    assert (run(("FROB", (r(4),), FALSE), *ADDRESS, ("MOV", (r(4), r(0))), STORE, END) == THREAD).all()
