"""Tensors, and what the watch says about global accesses."""

from __future__ import annotations

import numpy as np
import pytest

from layoutgen.cpu import LaunchReport, Tensor, TensorError, UnsupportedInstructionError, launch
from layoutgen.cpu.memory import GlobalMemory


def run(body: str, *tensors: Tensor, warps: int = 1, grid: int = 1) -> LaunchReport:
    """Run `body`: %a0, %a1, ... point to the tensors, %t is the thread, %b the block."""
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(tensors)))
    pointers = " ".join(f"ld.param.u64 %a{i}, [p{i}];" for i in range(len(tensors)))
    text = f""".version 8.8
.target sm_70
.visible .entry body({parameters}) .reqntid {32 * warps} {{
.reg .b32 %x<9>; .reg .b16 %h<9>; .reg .b64 %a<9>; .reg .b64 %w<9>; .reg .pred %p<9>; .reg .b32 %t; .reg .b32 %b;
.loc 1 7 0
mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; {pointers}
.loc 1 9 0
{body}
ret; }}
.file 1 "some/where/body.py"
"""
    return launch(text, grid, warps, list(tensors), expect_all_written=False)


def only(report: LaunchReport, kind: str, count: int) -> str:
    """The text of the one finding, which must be of this kind, concern so many lanes and name line 9."""
    assert [f.kind for f in report.findings] == [kind], str(report)
    finding = report.findings[0]
    assert finding.count == count, str(finding)
    assert str(finding.source) == "body.py:9"
    return str(finding)


COPY = "mad.wide.u32 %w0, %t, 4, %a0; mad.wide.u32 %w1, %t, 4, %a1; ld.global.b32 %x0, [%w0]; st.global.b32 [%w1], %x0;"


def test_copy_is_clean() -> None:
    x, y = Tensor.input("x", np.arange(32, dtype=np.int32)), Tensor.output("y", (32,), "i4")
    assert run(COPY, x, y).clean
    assert (y.array == np.arange(32)).all()
    assert y.unwritten == 0


@pytest.mark.parametrize("size", [1, 31, 20])
def test_out_of_bounds(size: int) -> None:
    x, y = Tensor.input("x", np.arange(size, dtype=np.int32)), Tensor.output("y", (32,), "i4")
    text = only(run(COPY, x, y), "out of bounds", 32 - size)
    assert f"reads 4 bytes at x +{4 * size} bytes" in text
    assert (y.array[:size] == np.arange(size)).all()
    x, y = Tensor.input("x", np.arange(32, dtype=np.int32)), Tensor.output("y", (size,), "i4")
    only(run(COPY, x, y), "out of bounds", 32 - size)
    assert (y.array == np.arange(size)).all()


def test_negative_and_null_and_high_addresses() -> None:
    x, y = Tensor.input("x", np.arange(32, dtype=np.int32)), Tensor.output("y", (32,), "i4")
    assert "x -4 bytes" in only(run(f"add.s64 %a0, %a0, -4; {COPY}", x, y), "out of bounds", 1)
    assert "no tensor" in only(run(f"mov.b64 %a0, 0; {COPY}", x, y), "out of bounds", 32)
    only(run(f"add.s64 %a0, %a0, 4294967296; {COPY}", x, y), "out of bounds", 32)


def test_a_tensor_lies_across_a_4_gib_boundary() -> None:
    tensors = [Tensor.input("x", np.zeros(5000, np.float32)), Tensor.output("y", (3, 1 << 16), "f2")]
    memory = GlobalMemory(tensors)
    for tensor in tensors:
        first = memory.pointer(tensor)
        assert first % 256 == 0
        assert first >> 32 != first + tensor.high - 1 >> 32


def test_misaligned() -> None:
    x, y = Tensor.input("x", np.arange(40, dtype=np.int32)), Tensor.output("y", (32,), "i4")
    body = COPY.replace("ld.global.b32 %x0, [%w0]", "ld.global.v2.b32 {%x0, %x1}, [%w0]")
    assert "not a multiple of 8" in only(run(body, x, y), "misaligned", 16)
    x = Tensor.input("x", np.arange(40, dtype=np.int16), misalign=2)
    only(run(COPY.replace("%t, 4, %a0", "%t, 0, %a0"), x, y), "misaligned", 32)


def test_padding_is_uninitialised_and_unowned() -> None:
    values = np.arange(32, dtype=np.int32).reshape(8, 4)
    x, y = Tensor.input("x", values, (5, 1)), Tensor.output("y", (40,), "i4")
    only(run(COPY, x, y), "uninitialised", 6)  # elements 4, 9, ... 29 of the first 32
    x, y = Tensor.input("x", np.arange(40, dtype=np.int32)), Tensor.output("y", (8, 4), "i4", (5, 1))
    only(run(COPY, x, y), "unowned write", 6)


def test_reading_an_output_before_it_is_written() -> None:
    x, y = Tensor.output("x", (32,), "i4"), Tensor.output("y", (32,), "i4")
    only(run(COPY, x, y), "uninitialised", 32)
    assert np.isnan(x.array.view(np.float32)).all()
    body = "mad.wide.u32 %w0, %t, 4, %a0; st.global.b32 [%w0], %t; ld.global.b32 %x0, [%w0];"
    assert run(body, x).clean


def test_inputs_must_not_be_written() -> None:
    x = Tensor.input("x", np.zeros(32, np.int32))
    only(run("mad.wide.u32 %w0, %t, 4, %a0; st.global.b32 [%w0], %t;", x), "unowned write", 32)
    assert (x.array == 0).all()


def test_two_writers_of_one_element() -> None:
    y = Tensor.output("y", (32,), "i4")
    body = "and.b32 %x0, %t, 30; mad.wide.u32 %w0, %x0, 4, %a0; st.global.b32 [%w0], {};"
    only(run(body.format("%t"), y), "race", 16)
    assert run(body.format("7"), Tensor.output("y", (32,), "i4")).clean  # the same value: harmless
    only(
        run("mad.wide.u32 %w0, %t, 4, %a0; st.global.b32 [%w0], 7;", Tensor.output("y", (32,), "i4"), grid=2),
        "race",
        32,
    )


def test_predicated_and_vector_accesses() -> None:
    x = Tensor.input("x", np.arange(128, dtype=np.int32))
    y = Tensor.output("y", (128,), "i4")
    body = """setp.lt.u32 %p0, %t, 25; mul.wide.u32 %w2, %t, 16; add.s64 %w0, %a0, %w2; add.s64 %w1, %a1, %w2;
              @%p0 ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%w0+0]; @%p0 st.global.v4.b32 [%w1], {%x3, %x2, %x1, %x0};"""
    assert run(body, x, y).clean
    assert (y.array[:100].reshape(25, 4) == np.arange(100).reshape(25, 4)[:, ::-1]).all()
    assert y.unwritten == 28


@pytest.mark.parametrize(("kind", "dtype"), [("u8", "u1"), ("s8", "i1"), ("u16", "u2"), ("s16", "i2"), ("b64", "u8")])
def test_widths(kind: str, dtype: str) -> None:
    values = np.arange(120, 152).astype(dtype)
    x, y = Tensor.input("x", values), Tensor.output("y", (32,), dtype)
    size = np.dtype(dtype).itemsize
    register = "%w3" if size == 8 else "%x3"
    body = f"""mad.wide.u32 %w0, %t, {size}, %a0; mad.wide.u32 %w1, %t, {size}, %a1;
               ld.global.{kind} {register}, [%w0]; st.global.b{8 * size} [%w1], {register};"""
    assert run(body, x, y).clean
    assert (y.array == values).all()


def test_narrow_loads_extend() -> None:
    x, y = Tensor.input("x", np.int8([-3] * 32)), Tensor.output("y", (32,), "i4")
    body = (
        "cvt.u64.u32 %w2, %t; add.s64 %w0, %a0, %w2; ld.global.s8 %x0, [%w0]; "
        "mad.wide.u32 %w1, %t, 4, %a1; st.global.b32 [%w1], %x0;"
    )
    assert run(body, x, y).clean
    assert (y.array == -3).all()
    y = Tensor.output("y", (32,), "i4")
    assert run(body.replace(".s8", ".u8"), x, y).clean
    assert (y.array == 253).all()


# Tensors ----------------------------------------------------------------------------------------------------


def test_strides() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for strides in (None, (12, 4, 1), (1, 2, 6), (100, 30, 7), (-12, 4, 1), (12, -4, -1)):
        assert (Tensor.input("x", values, strides).array == values).all()
    bias = Tensor.input("b", np.broadcast_to(np.arange(4.0), (3, 4)), (0, 1))
    assert bias.high == 32
    assert (bias.array == np.arange(4)).all()


def test_refused_tensors() -> None:
    with pytest.raises(TensorError, match="different values"):
        Tensor.input("b", np.arange(12).reshape(3, 4), (0, 1))
    with pytest.raises(TensorError, match="overlap"):
        Tensor.output("o", (3, 4), "f4", (0, 1))
    with pytest.raises(TensorError, match="strides for shape"):
        Tensor.output("o", (3, 4), "f4", (1,))
    with pytest.raises(TensorError, match="misalign"):
        Tensor.output("o", (3,), "f4", misalign=2)


def test_nan_values_can_be_inputs() -> None:
    values = np.full(32, np.nan, np.float32)
    assert np.isnan(Tensor.input("x", values, (0,)).array).all()


@pytest.mark.parametrize(
    "text",
    ["ld.b32 %x0, [%a0]", "ld.local.b32 %x0, [%a0]", "st.global.v8.b32 [%a0], {%x0}",
     "ld.global.acquire.b32 %x0, [%a0]",
     "ld.global.v2.b32 {%x0}, [%a0]", "atom.global.add.u32 %x0, [%a0], 1", "red.global.add.u32 [%a0], 1",
     "cp.async.ca.shared.global [%x0], [%a0], 16"],
)  # fmt: skip
def test_unknown_forms(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match="unsupported"):
        run(f"{text};", Tensor.output("y", (32,), "i4"))


def test_hints_are_accepted() -> None:
    x, y = Tensor.input("x", np.arange(32, dtype=np.int32)), Tensor.output("y", (32,), "i4")
    body = COPY.replace("ld.global", "ld.global.nc.L1::evict_last.L2::128B").replace("st.global", "st.global.wt")
    assert run(body, x, y).clean
