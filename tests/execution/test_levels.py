"""Emitted kernels at both levels: the machine code gives the PTX's bits, and a run says where it does not."""

import dataclasses
import re

import numpy as np
import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch, run_kernel
from layoutgen.execution.execute import execute_ptx
from layoutgen.execution.inputs import WRITTEN, place
from layoutgen.execution.levels import run_code
from layoutgen.kernels import AttentionRequest
from layoutgen.toolchain import build_kernel, read_kernel
from layoutgen.toolchain.binaries import assemble
from layoutgen.toolchain.elf import sections
from tests.committed import GENERATED, committed
from tests.kernels.launching import emitted, kernel

HALF, SINGLE = "float16", "float32"
TILE = {"block_m": 64, "block_n": 64, "block_k": 32}


def small(request):
    """A shape with tails everywhere, grouped heads, several blocks."""
    return (1, 2, 1, 70, 45, request.head_dim) if isinstance(request, AttentionRequest) else (2, 70, 75, 45)


@pytest.mark.parametrize("path", committed())
def test_every_generated_kernel_is_equal_bit_for_bit(path):
    kernel = read_kernel(path)
    result = run_kernel(kernel, Launch(small(kernel.request)), level="sass")
    assert result.machine is not None
    assert result.passed, [*map(str, result.machine.differences), *map(str, result.findings)]
    machine = result.machine.report.total
    assert machine.mma == result.report.total.mma > 0
    # ptxas leaves out the loads whose results nobody reads, by which fast attention computes its addresses early.
    dropped = result.report.total.wavefronts - machine.wavefronts
    assert dropped >= 0 if "attention_fast" in kernel.request.template else dropped == 0
    assert machine.sectors == result.report.total.sectors


@pytest.mark.parametrize("name", ["attention_d40_64x32", "matmul_64x64x32"])
@pytest.mark.parametrize("mma", ["v100", "exact"])
def test_turing_and_exact_arithmetic(name, mma):
    kernel = read_kernel(GENERATED[0].parent / f"{name}.py")
    result = run_kernel(kernel, Launch(small(kernel.request), strides="padded"), mma, "sm_75", level="sass")
    assert result.passed


@pytest.mark.sweep
@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
@pytest.mark.parametrize("mma", ["v100", "exact"])
@pytest.mark.parametrize("strides", ["contiguous", "padded", "expanded"])
@pytest.mark.parametrize("inputs", ["normal", "large", "nan"])
@pytest.mark.parametrize("path", committed())
def test_generated_kernels_on_many_launches(path, inputs, strides, mma, arch):
    kernel = read_kernel(path)
    result = run_kernel(kernel, Launch(small(kernel.request), inputs, None, strides, seed=1), mma, arch, level="sass")
    assert result.machine is not None
    assert result.machine.passed, [*map(str, result.machine.differences)]


REQUESTS = {
    **{f"d{d}{'b' * bias}": (lambda d=d, bias=bias: lg.attention(head_dim=d, bias=bias))
       for d in (16, 48, 72, 112, 160, 192, 256) for bias in (False, True)},
    **{f"{order} {dtype}": (lambda o=order, t=dtype: lg.matmul(**TILE, b_order=o, out_dtype=t))
       for order in ("kn", "nk") for dtype in (HALF, SINGLE)},
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
@pytest.mark.parametrize("misalign", [0, 2])
@pytest.mark.parametrize("name", REQUESTS)
def test_other_requests(tmp_path, name, misalign, arch):
    path = tmp_path / "kernel.py"
    REQUESTS[name]().write(path)
    kernel = read_kernel(path)
    result = run_kernel(kernel, Launch(small(kernel.request), misalign=misalign), arch=arch, level="sass")
    assert result.machine is not None
    assert result.machine.passed, [*map(str, result.machine.differences)]


# What must fail -------------------------------------------------------------------------------------------


def machine_run(kernel, shape, change_cubin=None, change_ptx=None):
    """Run a kernel's PTX beside a machine code whose first kernel was tampered with."""
    placed = place(kernel.request, Launch(shape), np.random.default_rng(0))
    arrays = {name: argument.array for name, argument in placed.items()}
    builds = [build_kernel(kernel, "sm_70", arrays, name) for name in kernel.kernels]

    def tensors():
        return {name: argument.tensor(name) for name, argument in placed.items()}

    reports, ptx = execute_ptx(builds, tensors())
    assert all(report.clean for report in reports)
    ptx = dataclasses.replace(ptx, tensors={name: tensor for name, tensor in ptx.tensors.items() if name in WRITTEN})
    first = builds[0]
    cubin = first.cubin if change_ptx is None else assemble(change_ptx(first.ptx), "sm_70")[0]
    if change_cubin is not None:
        cubin = change_cubin(cubin, first.kernel)
    return run_code([dataclasses.replace(first, cubin=cubin), *builds[1:]], ptx, tensors)


def simple_matmul():
    return read_kernel(GENERATED[0].parent / "matmul_64x64x32.py"), (1, 70, 75, 45)


def wrong_order(ptx):
    """Swap the two registers of A in every mma."""
    return re.sub(r"(mma\.sync\.aligned\.m8n8k4[^}]*\}, \{)(%r\d+), (%r\d+)", r"\1\3, \2", ptx)


def test_a_difference_names_the_element_and_both_writers():
    run = machine_run(*simple_matmul(), change_ptx=wrong_order)
    assert not run.passed
    text = str(run.differences[0])
    assert re.match(r"c\[0, \d+, \d+\] is .* by PTX, written by `(@\S+ )?st\.global", text), text
    assert re.search(r"by machine code for sm_70, written by `(@\S+ )?STG\.E.*\.py:\d+\); \d+ elements differ", text), (
        text
    )


def test_each_kernel_of_a_call_answers_for_what_it_wrote():
    """The product's partial sums are wrong, and so is C, which another kernel wrote with instructions of its own."""
    file = emitted(kernel(split_k=3, out_dtype="float32"))
    assert file.kernels == ("matmul_kernel", "finish_kernel")
    second = file.path.read_text().split("def finish_kernel")[0].count("\n") + 1
    differences = machine_run(file, (1, 33, 40, 100), change_ptx=wrong_order).differences
    assert [difference.output for difference in differences] == ["c", "partials"]
    for difference in differences:
        for writer in (difference.first_writer, difference.second_writer):
            assert "st.global" in writer or "STG" in writer
            line = int(re.search(r"\.py:(\d+)\)", writer)[1])
            assert (line > second) == (difference.output == "c"), writer


def test_an_undefined_register_that_matters_is_seen():
    """Without the accumulators' initialisation the result depends on what the registers held."""

    def never_zeroed(cubin, kernel):
        code = sections(cubin)[f".text.{kernel}"]
        start = cubin.index(code)
        changed = bytearray(cubin)
        zeroing = 0x0000000000007805  # CS2R Rn, SRZ
        count = 0
        for here in range(start, start + len(code), 16):
            word = int.from_bytes(code[here - start : here - start + 8], "little")
            if word & 0xFF00FFFF == zeroing & 0xFF00FFFF:
                changed[here : here + 8] = (0x0000000000007918).to_bytes(8, "little")  # NOP
                count += 1
        assert count
        return bytes(changed)

    run = machine_run(*simple_matmul(), change_cubin=never_zeroed)
    assert any("filled 1" in difference.second for difference in run.differences), [*map(str, run.differences)]


def test_a_level_that_there_is_not():
    with pytest.raises(LayoutgenError, match="no level 'gpu'; ptx and sass are known"):
        run_kernel(read_kernel(GENERATED[0]), Launch((1, 1, 1, 1, 1, 40)), level="gpu")
