"""Offline compilation: the figures of the default kernels, the launch they are specialised for, and failures."""

import re
import subprocess

import pytest

import layoutgen as lg
from layoutgen.errors import CompilationError, LayoutgenError
from layoutgen.kernels import Array
from layoutgen.toolchain import binaries, compile_kernel, opcodes, read_kernel
from layoutgen.toolchain.compile import entry_parameters
from layoutgen.toolchain.elf import sections


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    kernels = {"attention": lg.attention(head_dim=96), "matmul": lg.matmul(block_m=64, block_n=64)}
    return {name: read_kernel(kernel.write(folder)) for name, kernel in kernels.items()}


@pytest.fixture(scope="module")
def attention(files):
    return compile_kernel(files["attention"], "sm_70")


def test_the_default_attention_kernel(attention):
    assert attention.hmma == 384
    assert (attention.spill_stores, attention.spill_loads) == (0, 0)
    assert attention.registers <= 170
    assert attention.num_warps == 4
    assert attention.shared_bytes == lg.attention(head_dim=96).plan.shared_bytes
    assert attention.request["block_m"] == 64


def test_all_hmma_of_attention_are_in_its_loop(attention):
    """The loop ends in the one branch back, and has three barriers: before and after staging, and before P V."""
    lines = [(int(address, 16), text) for address, text in re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", attention.sass)]
    back = [
        (int(match[1], 16), address)
        for address, text in lines
        if (match := re.search(r"BRA 0x([0-9a-f]+)", text)) and int(match[1], 16) < address
    ]
    assert len(back) == 1
    start, stop = back[0]
    inside = [text for address, text in lines if start <= address <= stop]
    assert sum("HMMA" in text for text in inside) == 384
    assert sum("BAR.SYNC" in text for text in inside) == 3


def test_parameters_come_in_order_with_the_hidden_ones(attention):
    types = [parameter.type for parameter in attention.params]
    # Five pointers, the scale, 19 strides less those that are 1, t_q and t_k, and two hidden pointers.
    assert types == ["u64"] * 5 + ["f32"] + ["u32"] * (len(types) - 8) + ["u64"] * 2
    named = [name for name, _ in attention.arguments]
    assert len(types) == len(named) + 2
    assert named[:6] == ["q", "k", "v", "out", "lse", "scale"]
    assert named[-2:] == ["t_q", "t_k"]
    assert not {"stride_qd", "stride_kd", "stride_vd", "stride_od", "group"} & set(named), "ones are constants"


def test_the_transposing_store_is_a_wide_vector_store(attention):
    assert re.search(r"STS\.(64|128)", attention.sass)
    assert opcodes(attention.sass)["STS"] > 0


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80"])
def test_the_same_file_compiles_for_other_architectures(files, arch):
    compiled = compile_kernel(files["matmul"], arch)
    assert compiled.arch == arch
    assert (compiled.hmma > 0) == (arch in ("sm_70", "sm_75")), "from sm_80 on the instruction is emulated"


def test_specialised_on_what_the_launch_passes(files):
    """A length that 16 does not divide, and a row stride that it does not: no vector loads may be assumed."""
    k = 1000 - 8 + 1
    arrays = {
        "a": Array((64, k), (k, 1), "float16"),
        "b": Array((k, 64), (64, 1), "float16"),
        "c": Array((64, 64), (64, 1), "float16"),
    }
    odd, even = compile_kernel(files["matmul"], "sm_70", arrays), compile_kernel(files["matmul"], "sm_70")
    assert "ld.global.v4.b32" in even.ptx
    assert "ld.global.v4.b32" not in odd.ptx
    assert dict(odd.arguments)["k"] == k


def test_without_gluons_source_class_layouts_cannot_be_verified(files, monkeypatch, tmp_path):
    """Triton's binder chooses GluonASTSource for a gluon kernel; the plain class must fail, or the choice is idle."""
    import triton
    from triton.experimental.gluon import _runtime

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # the cache does not tell the classes apart
    monkeypatch.setattr(_runtime, "GluonASTSource", triton.compiler.ASTSource)
    with pytest.raises(CompilationError):
        compile_kernel(files["matmul"], "sm_70")


def test_what_triton_says_is_passed_on(files, tmp_path):
    source = files["matmul"].source.replace("assert_trivial=True", "assert_trivial=1 + 'a'")
    path = tmp_path / "broken.py"
    path.write_text(source)
    with pytest.raises(CompilationError, match=r"broken.py: Triton \S+ for sm_70"):
        compile_kernel(read_kernel(path), "sm_70")


def test_a_wrong_literal_is_refused_by_triton_as_well(files, tmp_path):
    """The second opinion: assert_trivial fails on the layout that `prove` refutes."""
    source = files["matmul"].source
    start = source.index("FRAGMENT_B_C = gl.constexpr")
    literal = source[start : source.index("\n)\n", start)]
    swapped = literal.replace("[1, 0],  # a0", "[9, 0],  # a0").replace("[2, 0],  # a1", "[1, 0],  # a1")
    path = tmp_path / "wrong.py"
    path.write_text(source.replace(literal, swapped.replace("[9, 0]", "[2, 0]")))
    with pytest.raises(CompilationError):
        compile_kernel(read_kernel(path), "sm_70")


def test_layouts_are_part_of_tritons_cache_key(files, tmp_path):
    """Files that differ in a layout alone must not share a compiled kernel: Triton hashes constexpr globals only."""
    source = files["matmul"].source
    path = tmp_path / "other.py"
    path.write_text(source.replace("gl.BlockedLayout([4, 2], [1, 32]", "gl.BlockedLayout([4, 2], [2, 16]"))
    other = read_kernel(path)
    assert other.source != source
    assert compile_kernel(other, "sm_70").cubin != compile_kernel(files["matmul"], "sm_70").cubin
    assert other.load().matmul_kernel.cache_key != files["matmul"].load().matmul_kernel.cache_key


def test_unknown_architecture(files):
    with pytest.raises(LayoutgenError, match="arch 'sm_60': unknown; known are sm_70, sm_75"):
        compile_kernel(files["matmul"], "sm_60")


def test_other_code_than_tritons_is_noticed(files, monkeypatch):
    from layoutgen.toolchain import compile as module

    real = binaries.assemble
    monkeypatch.setattr(module, "assemble", lambda ptx, arch, _flags: real(ptx, arch, ("--opt-level", "0")))
    with pytest.raises(CompilationError, match="ptxas made other code here than for Triton"):
        compile_kernel(files["matmul"], "sm_70")


def test_spills_are_reported():
    """Sixty-four live values in twenty-four registers do not fit."""
    lines = [
        f"mov.b32 %r{i}, %tid.x; xor.b32 %r{i}, %r{i}, {i}; st.volatile.global.b32 [%rd1], %r{i};" for i in range(64)
    ]
    sums = [f"st.global.b32 [%rd1+{4 * i}], %r{i};" for i in range(64)]
    body = "\n".join([*lines, "bar.sync 0;", *sums])
    ptx = (
        ".version 8.4\n.target sm_70\n.address_size 64\n.visible .entry f(.param .u64 p)\n.maxnreg 24\n{\n"
        f".reg .b32 %r<64>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n{body}\nret;\n}}\n"
    )
    _, resources = binaries.assemble(ptx, "sm_70")
    assert resources.registers <= 24
    assert resources.spill_stores > 0


def test_ptxas_errors_are_passed_on():
    with pytest.raises(CompilationError, match=r"ptxas: .*error"):
        binaries.assemble(".version 8.4\n.target sm_70\n.address_size 64\nnonsense", "sm_70")


def test_a_report_without_registers_is_an_error():
    with pytest.raises(CompilationError, match="names no registers"):
        binaries.parse_report("ptxas info: nothing to say")


def test_a_cubin_without_the_kernel(attention):
    with pytest.raises(CompilationError, match="holds no code for other_kernel"):
        binaries.disassemble(attention.cubin, "other_kernel", "sm_70")


def test_an_entry_that_is_missing(attention):
    with pytest.raises(CompilationError, match="has no entry other_kernel"):
        entry_parameters(attention.ptx, "other_kernel")


def test_sections_against_readelf(attention, tmp_path):
    """Oracle: binutils' readelf where it is installed, beside what every cubin must have."""
    found = sections(attention.cubin)
    assert f".text.{attention.kernel}" in found
    assert found[".shstrtab"].startswith(b"\0")
    assert len(found[f".text.{attention.kernel}"]) % 16 == 0
    path = tmp_path / "kernel.cubin"
    path.write_bytes(attention.cubin)
    try:
        printed = subprocess.run(["readelf", "-SW", str(path)], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return
    sizes = dict(re.findall(r"\]\s+(\.\S+)\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+)", printed))
    for name, content in found.items():
        if content and name in sizes:
            assert len(content) == int(sizes[name], 16)


def test_not_an_elf_file():
    with pytest.raises(LayoutgenError, match="not a little-endian ELF64 file"):
        sections(b"MZ" + bytes(100))
