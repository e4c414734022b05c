"""The command line: what it prints, and that bad requests cost one line and exit status 2."""

import ast
import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import layoutgen as lg
from layoutgen.cli import main
from layoutgen.cli.emit import BY_FAMILY
from layoutgen.kernels import FastAttentionRequest, FastMatmulRequest
from layoutgen.tiling.named import named_layout

GENERATED = Path(__file__).parents[2] / "generated"


def run(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def run_json(*words, code=0):
    return json.loads(run(*words, "--json", code=code).stdout)


def test_atoms():
    assert "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32" in run("atoms").stdout
    entry = next(entry for entry in run_json("atoms") if entry["name"] == "SM70_8x8x4_F32F16F16F32_TN")
    assert entry["fragments"]["accumulator"]["rows"] == {"m": "a0 v1 b", "n": "v0 a1 v2"}
    assert entry["free_lane_bits"] == ["q0", "q1"]


DERIVE = ("derive", "--atom", "m8n8k4", "--block-m", 64, "--block-n", 32, "--warps", "4x1")


def test_derive_json_is_the_canonical_accumulator():
    """facts: registers ni0, mi1, ni2, then the repeats; lanes mi0, ni1, mi3, ni3, mi2; warps MB."""
    found = run_json(*DERIVE)
    assert list(found) == ["accumulator", "grouped", "fragment_a", "fragment_b"]
    assert found["accumulator"] == {
        "register": [[0, 1], [2, 0], [0, 4], [0, 16]],
        "lane": [[1, 0], [0, 2], [8, 0], [0, 8], [4, 0]],
        "warp": [[16, 0], [32, 0]],
        "block": [],
        "shape": [64, 32],
    }
    assert found["grouped"] == {
        "register": [[0, 0, 0, 0, 0, 0, 1], [0, 0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0, 0]],
        "lane": [
            [0, 0, 1, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 2],
            [0, 1, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0],
            [0, 0, 4, 0, 0, 0, 0],
        ],
        "warp": [[1, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0]],
        "block": [],
        "shape": [4, 2, 8, 2, 2, 2, 4],
    }
    assert found["fragment_a"] == {
        "register": [[0, 1], [0, 2], [0, 0], [0, 0]],
        "lane": [[1, 0], [2, 0], [8, 0], [0, 0], [4, 0]],
        "warp": [[16, 0], [32, 0]],
        "block": [],
        "shape": [64, 4],
    }
    assert found["fragment_b"] == {
        "register": [[0, 1], [0, 2], [0, 0], [16, 0]],
        "lane": [[1, 0], [2, 0], [0, 0], [8, 0], [4, 0]],
        "warp": [[0, 0], [0, 0]],
        "block": [],
        "shape": [32, 4],
    }


def test_derive_in_other_forms():
    text = run(*DERIVE).stdout
    assert "\naccumulator [64, 32]\n" in text
    assert "\ngrouped [4, 2, 8, 2, 2, 2, 4]\n" in text
    assert "reshape [16, 2, 2, 2, 2], permute [0, 3, 2, 1, 4]" in text
    assert r"m_{1} &= v_{1} \\" in run(*DERIVE, "--latex").stdout
    gluon = run(*DERIVE, "--gluon").stdout
    assert "gl.DistributedLinearLayout(" in gluon
    assert "# q0: m3" in gluon


@pytest.mark.parametrize("notation", ["ttg", "cute"])
def test_derive_writes_what_explain_reads(notation):
    tiling = lg.derive(atom="m8n8k4", block_m=64, block_n=32, warps="4x1")
    lines = run(*DERIVE, f"--{notation}").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["accumulator", "grouped", "fragment_a", "fragment_b"]
    for line in lines:
        name, shape, text = re.fullmatch(r"(\w+) \[(.*)\]: (.*)", line).groups()
        assert lg.read_layout(text, [int(size) for size in shape.split(",")]) == named_layout(tiling, name)
    text = lines[2].split(": ", 1)[1]
    assert run_json("explain", text, "fragment_a", "--shape", "64,4", *DERIVE[1:])["class"] == "identical"


def test_derive_writes_the_accumulator_as_cutlass_does():
    """SM80_16x8_Row of cute/atom/mma_traits_sm80.hpp."""
    first = run("derive", "--atom", "m16n8k16", "--block-m", 16, "--block-n", 8, "--warps", "1x1", "--cute").stdout
    assert first.startswith("accumulator [16, 8]: ((4,8),(2,2)):((32,1),(16,8))\n")


def test_emit_to_standard_output_file_and_folder(tmp_path):
    source = lg.attention(head_dim=96).source
    assert run("emit", "attention", "--profile", "volta", "--head-dim", 96).stdout == source
    run("emit", "attention", "--head-dim", 96, "-o", tmp_path / "kernel.py")
    assert (tmp_path / "kernel.py").read_text() == source
    run("emit", "attention", "--head-dim", 96, "-o", tmp_path)
    assert (tmp_path / "attention_d96_64x32.py").read_text() == source
    (said,) = run_json("emit", "attention", "--head-dim", 96, "-o", tmp_path)
    assert said["obligations"] == len(lg.attention(head_dim=96).proofs)
    assert said["path"] == str(tmp_path / "attention_d96_64x32.py")


def test_emit_runs_the_command_of_its_own_header():
    for kernel in (
        lg.attention(head_dim=80, bias=True, block_m=32),
        lg.matmul(b_order="nk", out_dtype="float32", warps="4x2"),
        lg.attention(head_dim=64, block_m=64, arrangement="m3,m4"),
        lg.matmul(design="fast", operand_dtype="float32", split_k=3, epilogue="where(x > 0.0, x, 0.5 * x)", bias=True),
    ):
        header = ast.get_docstring(ast.parse(kernel.source))
        command = shlex.split(header.split("regenerate it with")[1])
        assert run(*command[1:]).stdout == kernel.source


def test_emit_list_and_check(tmp_path):
    assert "layoutgen emit attention --head-dim 96" in run("emit", "--list").stdout
    assert len(run_json("emit", "--list")) == len(lg.default_set())
    assert run_json("emit", "--check", "-o", GENERATED) == {"drifted": [], "checked": len(lg.default_set())}
    run("emit", "all", "-o", tmp_path)
    run("emit", "--check", "-o", tmp_path)
    path = tmp_path / "matmul_64x64x32.py"
    path.write_text(path.read_text().replace("gl.barrier()", "pass", 1))
    assert "drifted: matmul_64x64x32.py" in run("emit", "--check", "-o", tmp_path, code=1).stdout
    assert "-        pass  #" in run("emit", "--diff", "-o", tmp_path, code=1).stdout
    assert run_json("emit", "--check", "-o", tmp_path, code=1)["drifted"] == ["matmul_64x64x32.py"]


def test_compile(tmp_path):
    files = {name: tmp_path / f"kernel.{name}" for name in ("ptx", "sass", "cubin")}
    words = [word for name, path in files.items() for word in (f"--{name}", path)]
    found = run_json("compile", GENERATED / "matmul_64x64x32.py", "--arch", "sm_70", *words)
    assert found["kernels"] == [{key: found[key] for key in found["kernels"][0]}]
    assert set(found) - {"kernel", "kernels"} == {
        "arch", "triton", "request", "registers", "spill_stores", "spill_loads",
        "shared_bytes", "num_warps", "hmma", "params", "agreements",
    }  # fmt: skip
    assert (found["arch"], found["hmma"], found["num_warps"]) == ("sm_70", 128, 4)
    assert found["request"]["block_k"] == 32
    assert all(set(parameter) == {"name", "type"} for parameter in found["params"])
    assert files["ptx"].read_text().count(".param") >= len(found["params"])
    assert files["sass"].read_text().count("HMMA") == 128
    assert files["cubin"].read_bytes()[:4] == b"\x7fELF"
    assert "HMMA          128" in run("compile", GENERATED / "matmul_64x64x32.py").stdout


def test_every_kernel_of_a_call_is_compiled_and_inspect_says_which_it_shows(tmp_path):
    path = lg.matmul(
        design="fast", block_m=32, block_n=32, block_k=16, warps="1x1", split_k=3, out_dtype="float32"
    ).write(tmp_path)
    found = run_json("compile", path)
    product, finish = found["kernels"]
    assert (product["kernel"], finish["kernel"]) == ("matmul_kernel", "finish_kernel")
    assert product == {key: found[key] for key in product}
    assert finish["hmma"] == finish["shared_bytes"] == 0 < product["hmma"]
    assert 0 < finish["registers"] < product["registers"]
    text = run("compile", path, "--sass", tmp_path / "kernel.sass").stdout
    for one in (product, finish):
        assert f"{one['kernel']} for sm_70" in text
        assert f"  registers     {one['registers']} a thread, 0 bytes spilled\n" in text
    assert text.endswith("kernel.sass, of matmul_kernel\n")
    assert "HMMA" in (tmp_path / "kernel.sass").read_text()
    assert "matmul_kernel alone; a call also launches finish_kernel" in run("inspect", path).stdout
    beside = run("inspect", path, "--vs", GENERATED / "matmul_64x64x32.py").stdout
    assert re.search(r"^not shown +finish_kernel +-$", beside, re.MULTILINE)
    seen = run_json("inspect", path)
    assert (seen["function"], seen["others"]) == ("matmul_kernel", ["finish_kernel"])


def test_compile_for_another_launch(tmp_path):
    """The sizes of a launch decide which arguments stay parameters: strides that are 1 vanish."""
    path = GENERATED / "matmul_64x64x32.py"

    def kinds(*words):
        return [parameter["type"] for parameter in run_json("compile", path, *words)["params"]]

    default, transposed, flat = kinds(), kinds("--order", "tt"), kinds("--shape", "1,8,1,8")
    assert len(default) == len(transposed), "one stride of each operand is 1 in either order"
    assert len(flat) < len(default), "n = 1 is a constant, and so are the strides of columns of one element"
    for misalign, vectors in ((0, True), (2, False)):
        run("compile", path, "--misalign", misalign, "--ptx", tmp_path / "kernel.ptx")
        assert ("ld.global.v4" in (tmp_path / "kernel.ptx").read_text()) == vectors


def test_without_a_block_the_profile_chooses_it():
    found = run_json("derive")
    assert found["accumulator"]["shape"] == [128, 128]
    assert found["grouped"]["shape"] == [8, 2, 8, 8, 2, 2, 4]


BAD = [
    (("derive", "--block-m", 2**70, "--block-n", 16), "at most 1024; the nearest legal value is 1024"),
    (("emit", "matmul", "--block-k", 2**70), "at most 1024"),
    (("derive", "--block-m", 64, "--block-n", 64, "--warps", "9" * 5000 + "x1"), "must be written WMxWN"),
    (("emit", "attention", "--head-dim", 96, "--split", "9" * 5000), "must be a comma-separated list"),
    (("emit", "matmul", "-o", "x" * 300), "file name too long"),
    (("run", GENERATED / "matmul_64x64x32.py", "--shape", "1,0,5,5"), "has an empty output"),
    (("run", GENERATED / "matmul_64x64x32.py", "--shape", "1,1,1,2147483648"), "a run holds at most"),
    (("run", GENERATED / "matmul_64x64x32.py", "--seed", -1), "seed -1: must be 0 or more"),
    (("run", GENERATED / "matmul_64x64x32.py", "--mma", "zz"), "no arithmetic 'zz'"),
    (("run", GENERATED / "matmul_64x64x32.py", "--shape", "65536,1,1,1"), "a launch has at most 65535 blocks"),
    (("compile", GENERATED / "matmul_64x64x32.py", "--shape", "1,1,1,9999999999999999999"), "comma-separated list"),
    (("derive", "--block-m", 48, "--block-n", 32), "block_m = 48: must be a power of two"),
    (("derive", "--block-m", 64), "block_m and block_n go together"),
    (("derive", "--nonsense"), "No such option"),
    (("derive", "--ttg", "--json"), "derive: name one of --json, --latex, --gluon, --ttg and --cute"),
    (("derive", "--block-m", "x", "--block-n", 32), "is not a valid integer"),
    (("emit", "convolution"), "is not one of 'attention', 'matmul', 'all'"),
    (("nonsense",), "No such command"),
    (("compile",), "Missing argument 'FILE'"),
    ((*DERIVE[:-1], "3x1"), "warps along block_m: 3 is not a power of two"),
    ((*DERIVE[:-1], "8x1"), "block_m = 64: must be a power of two and at least 128"),
    ((*DERIVE[:-1], "4"), "must be written WMxWN"),
    (("derive", "--atom", "m9n9k9", "--block-m", 64, "--block-n", 32), "atom m9n9k9: not in the catalogue"),
    ((*DERIVE, "--arrangement", "x3,n3"), "'x3' is not a row"),
    (("derive", "--profile", "nocard", "--block-m", 64, "--block-n", 32), "profile nocard: unknown"),
    (("prove", "--json", "--latex"), "prove: name one of --json and --latex"),
    (("prove", "missing.py"), "no such file or directory"),
    (("prove", GENERATED / "matmul_64x64x32.py", "--block-m", 64), "takes no --block-m"),
    (("prove", __file__), "has no REQUEST"),
    (
        ("inspect", GENERATED / "matmul_64x64x32.py", "--vs", GENERATED / "attention_d64_64x32.py"),
        "one is matmul, the other attention; name two files of one family",
    ),
    (("emit",), "name exactly one of attention, matmul, all"),
    (("emit", "attention"), "--head-dim is needed"),
    (("emit", "attention", "--head-dim", 8), "head dim 8: must lie in 16..256; the nearest legal one is 16"),
    (("emit", "attention", "--head-dim", 300), "takes at most 256; take that, or design fast"),
    (("emit", "attention", "--head-dim", 1025), "the nearest legal one is 256"),
    (("emit", "attention", "--head-dim", 96, "--split", "64,x"), "split '64,x': must be a comma-separated list"),
    (("emit", "attention", "--head-dim", 112, "--split", "64,32,16"), "has three parts; at most two are allowed"),
    (("emit", "attention", "--head-dim", 96, "--block-k", 32), "takes no --block-k, which matmul takes"),
    (("emit", "all", "--bias"), "takes no --bias, which attention and matmul take"),
    (("emit", "all", "--check", "-o", "x"), "--diff; the last three are about the whole default set"),
    (("emit", "attention", "--head-dim", 64, "--design", "fast", "--window", 128), "window '128': must be two numbers"),
    (("emit", "attention", "--design", "fast", "--head-dim", 64, "--window=-5,0"), "window '-5,0': must be two"),
    (("emit", "matmul", "--bias"), "takes no bias; fast does: take design fast"),
    (("emit", "attention", "--head-dim", 128, "--causal"), "takes no causal; fast does: take design fast"),
    (("emit", "matmul", "--shape", "1,4096,4096,1024"), "a shape chooses among the tiles of the fast design"),
    (("emit", "matmul", "--design", "fast", "--epilogue", "swish"), "name one of none, relu, silu, gelu, gelu_tanh"),
    (("emit", "matmul", "--block-n", 96), "block_n = 96: must be a power of two"),
    (("emit", "all"), "name a folder"),
    (("emit", "all", "-o", "no/such/folder"), "is not a folder"),
    (("emit", "matmul", "-o", "no/such/folder/kernel.py"), "there is no folder no/such/folder"),
    (("emit", "--check", "-o", "no/such/folder"), "is not a folder"),
    (("emit", "matmul", "--check"), "name exactly one of"),
    (("compile", "missing.py"), "no such file or directory"),
    (("compile", GENERATED / "matmul_64x64x32.py", "--arch", "sm_99"), "arch 'sm_99': unknown"),
    (("compile", GENERATED / "matmul_64x64x32.py", "--ptx", "no/such/folder/k.ptx"), "there is no folder"),
    (("compile", GENERATED / "matmul_64x64x32.py", "--shape", "1,2"), "Z,M,N,K, 4 sizes; for example 1,4096,4096,1024"),
    (("compile", GENERATED / "attention_d64_64x32.py", "--shape", "1"), "for example 1,8,8,1024,1024,64"),
    (("compile", GENERATED / "attention_d64_64x32.py", "--shape", "1,4,3,8,8,64"), "Hkv = 3 must divide H = 4"),
    (("compile", GENERATED / "attention_d64_64x32.py", "--shape", "1,4,4,8,8,80"), "this kernel has head dim 64"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(map(str, words[:4])) for words, _ in BAD])
def test_bad_requests(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*words, code=2)
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == [], "nothing is left half-written"


def command(*words, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "layoutgen", *map(str, words)], capture_output=True, text=True, **kwargs
    )


RUN = ("run", "--shape", "1,5,5,5")


def test_json_has_no_infinity(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text((GENERATED / "matmul_64x64x32.py").read_text().replace("mask=(c_row < m)", "mask=(c_row < m - 1)"))
    found = run(*RUN, path, "--json", code=1).stdout
    assert json.loads(found, parse_constant=pytest.fail)["max_abs_error"] is None
    assert re.search(r"bound +\S+ there; the worst element uses inf % of its bound", run(*RUN, path, code=1).stdout)


def test_run_tells_the_time_of_compiling_from_that_of_executing(monkeypatch):
    from layoutgen.execution import run as running

    def slow(*words):
        time.sleep(0.3)
        return build_kernel(*words)

    build_kernel = running.build_kernel
    before = run_json(*RUN, GENERATED / "matmul_64x64x32.py")
    monkeypatch.setattr(running, "build_kernel", slow)
    after = run_json(*RUN, GENERATED / "matmul_64x64x32.py")
    assert 0 < before["build_seconds"] < before["seconds"]
    assert 0.3 < after["build_seconds"] < after["seconds"]
    assert re.search(
        r"time +\d+\.\d s to compile, \d+\.\d s to execute", run(*RUN, GENERATED / "matmul_64x64x32.py").stdout
    )


def test_what_no_card_can_launch_fails(tmp_path):
    card = tmp_path / "card.yml"
    volta = (Path(lg.__file__).parent / "profiles" / "nvidia" / "volta.yml").read_text()
    card.write_text(volta.replace("shared_bytes_per_block: 98304", "shared_bytes_per_block: 983040"))
    # 132 KiB of tiles, and little code to compile.
    words = ("--block-m", 32, "--block-n", 1024, "--block-k", 64, "--warps", "1x16", "--profile", card)
    run("emit", "matmul", *words, "-o", tmp_path / "kernel.py")
    result = run("compile", tmp_path / "kernel.py", code=1)
    assert "cannot be launched: volta has 98304 bytes" in result.stderr


def test_output_on_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "layoutgen", "atoms"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_as_a_process():
    """Exit status and streams as a shell sees them, without a word from Triton's bindings."""
    done = command("compile", GENERATED / "matmul_64x64x32.py")
    assert (done.returncode, done.stderr) == (0, "")
    done = command("prove", "missing.py")
    assert done.returncode == 2
    assert done.stderr.startswith("layoutgen: missing.py")
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away():
    writer = subprocess.Popen(
        [sys.executable, "-m", "layoutgen", "emit", "attention", "--head-dim", "96"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    writer.stdout.readline()
    writer.stdout.close()
    assert "Traceback" not in writer.stderr.read()
    writer.stderr.close()
    writer.wait()


@pytest.mark.parametrize(
    ("family", "kind", "others"),
    [
        ("attention", FastAttentionRequest, {"design", "profile", "warps", "max_queries"}),
        ("matmul", FastMatmulRequest, {"design", "profile", "shape"}),
    ],
)
def test_emit_has_an_option_for_every_field_of_a_request(family, kind, others):
    assert BY_FAMILY[family] == {field.name for field in dataclasses.fields(kind)} | others


def test_the_list_of_the_default_set_is_two_columns():
    lines = run("emit", "--list").stdout.splitlines()
    assert len({line.index("layoutgen emit") for line in lines}) == 1
