"""The run must be able to fail: mutants of emitted files, each caught by the check that should catch it."""

import numpy as np
import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch, run_kernel
from layoutgen.toolchain import read_kernel

ATTENTION = lg.attention(head_dim=16, bias=True, block_m=64, block_n=32).source
MATMUL = lg.matmul(block_m=64, block_n=64).source

RACE, BOUNDS, VALUE, UNWRITTEN = "race", "out of bounds", "value", "unwritten"

MUTANTS = [
    (MATMUL, "        gl.barrier()  # the fragments of the tiles before have been read\n", "", None),
    (MATMUL, "mask=(a_row < m) & (first_k + a_k < k)", "mask=(first_k + a_k < k)", BOUNDS),
    (MATMUL, "mask=(a_row < m) & (first_k + a_k < k)", "mask=(a_row < m)", BOUNDS),
    (MATMUL, "mask=(a_row < m) & (first_k + a_k < k)", "mask=(a_row <= m) & (first_k + a_k < k)", BOUNDS),
    (MATMUL, "mask=(b_column < n) & (first_k + b_k < k)", "mask=(b_column < n - 1) & (first_k + b_k < k)", VALUE),
    (MATMUL, "mask=(c_row < m) & (c_column < n)", "mask=(c_row < m)", BOUNDS),
    (MATMUL, "mask=(c_row < m) & (c_column < n)", "mask=(c_row < m) & (c_column < n - 1)", UNWRITTEN),
    (MATMUL, "b + offset * stride_bk", "b + offset * stride_bn", VALUE),
    (MATMUL, "operand_b_c(fragment_b)", "operand_b_c(fragment_b + 1.0)", VALUE),
    (MATMUL, "{$8, $9}", "{$9, $8}", VALUE),
    (MATMUL, "row.col", "row.row", VALUE),
    (MATMUL, "slice(step * 64, 64).load(FRAGMENT_A_C)", "slice(0, 64).load(FRAGMENT_A_C)", VALUE),
    (MATMUL, "permute([0, 2, 1])\n        b_buffer", "permute([0, 2, 1]) + 0.0\n        a_buffer", VALUE),
    (ATTENTION, "mask=visible & (row[:, None] < queries)", "mask=visible", BOUNDS),
    (ATTENTION, "scores = gl.where(visible, scores, -float(\"inf\"))", "pass", VALUE),
    (ATTENTION, "inside = row < rows_left", "inside = row < rows_left - 1", VALUE),
    (ATTENTION, "inside = row < rows_left", "inside = row <= rows_left", BOUNDS),
    (ATTENTION, "* LN_2", "* 1.0", VALUE),
    (ATTENTION, "row_sum = row_sum * decay", "row_sum = row_sum", VALUE),
    (ATTENTION, "row_max = new_max", "row_max = row_max", VALUE),
    (ATTENTION, "* factor[:, None])\n        for", "* 1.0)\n        for", VALUE),
    (ATTENTION, "kv_head = (gl.program_id(1) // group)", "kv_head = (gl.program_id(1) * 0)", VALUE),
    (ATTENTION, "        gl.barrier()  # a warp reads only", "        # a warp reads only", None),
    (ATTENTION, "matrix, mask=r < queries", "matrix, mask=r < queries + 1", BOUNDS),
    (ATTENTION, "log_sum, mask=row < queries", "log_sum, mask=row < queries - 1", UNWRITTEN),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_mutants_are_caught(number, tmp_path):
    source, old, new, caught_by = MUTANTS[number]
    assert old in source
    path = tmp_path / "mutant.py"
    path.write_text(source.replace(old, new, 1))
    file = read_kernel(path)
    shape = (1, 4, 2, 70, 45, 16) if source is ATTENTION else (2, 70, 75, 70)
    result = run_kernel(file, Launch(shape))
    kinds = {finding.kind for finding in result.findings}
    if caught_by is None:  # Triton adds the barrier that the source leaves out
        assert result.passed
        return
    assert not result.passed
    if caught_by == VALUE:
        assert result.bound_share > 1
    else:
        assert caught_by in kinds, result.as_dict()
        assert any(finding.source and "mutant.py" in str(finding.source) for finding in result.findings) or (
            caught_by == UNWRITTEN
        )


def test_a_wrong_basis_that_triton_accepts_computes_wrong_results(tmp_path):
    """Lane bits a0 and q0 exchanged in every layout alike: each conversion stays trivial, and no proof holds."""
    import re

    from layoutgen.readback.source import prove_source

    def exchange(literal):
        first, second = (re.search(rf"(\[[\d, ]+\]),  # {bit}:", literal[0])[1] for bit in ("a0", "q0"))
        text = literal[0].replace(f"{first},  # a0:", "?,  # a0:").replace(f"{second},  # q0:", f"{first},  # q0:")
        return text.replace("?,  # a0:", f"{second},  # a0:")

    source = re.sub(r"lane_bases=\[\n.*?\n        \]", exchange, MATMUL, flags=re.DOTALL)
    path = tmp_path / "mutant.py"
    path.write_text(source)
    file = read_kernel(path)
    refuted = [verdict for verdict in prove_source(path, source, file.request) if not verdict.holds]
    assert any(verdict.obligation.claim == 4 and "the instruction" in verdict.witness for verdict in refuted)
    result = run_kernel(file, Launch((1, 64, 64, 32)))
    assert result.bound_share > 1


def test_a_register_of_the_instruction_exchanged_computes_wrong_results(tmp_path):
    path = tmp_path / "mutant.py"
    path.write_text(MATMUL.replace("{$0, $1, $2, $3", "{$1, $0, $2, $3"))
    assert run_kernel(read_kernel(path), Launch((1, 64, 64, 32))).bound_share > 1


def test_a_dropped_barrier_of_the_ptx_is_a_race(tmp_path):
    """Triton restores dropped source barriers, so the PTX itself is mutated."""
    from layoutgen.cpu import Tensor, launch, parse_ptx
    from layoutgen.toolchain import build_kernel

    path = tmp_path / "kernel.py"
    path.write_text(MATMUL)
    file = read_kernel(path)
    build = build_kernel(file, "sm_70", file.request.arrays((1, 64, 64, 96)))
    names = ("a", "b", "c")

    def findings(ptx):
        rng = np.random.default_rng(0)  # equal bytes written twice would be no race
        tensors = {
            "a": Tensor.input("a", rng.standard_normal((1, 64, 96)).astype(np.float16)),
            "b": Tensor.input("b", rng.standard_normal((1, 96, 64)).astype(np.float16)),
            "c": Tensor.output("c", (1, 64, 64), "float16"),
        }
        arguments = [tensors[name] if name in names else value for name, value in build.arguments]
        report = launch(parse_ptx(ptx), build.grid, build.num_warps, arguments, shared_bytes=build.shared_bytes)
        return {finding.kind for finding in report.findings}

    assert findings(build.ptx) == set()
    barriers = build.ptx.count("bar.sync")
    assert barriers == 2
    for dropped in range(barriers):
        parts = build.ptx.split("bar.sync")
        mutated = "bar.sync".join(parts[: dropped + 1]) + "// " + "bar.sync".join(parts[dropped + 1 :])
        assert "race" in findings(mutated)


def test_unsupported_arithmetic_is_refused(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(MATMUL)
    with pytest.raises(LayoutgenError, match="no arithmetic 'h100'"):
        run_kernel(read_kernel(path), Launch((1, 8, 8, 8)), mma="h100")
