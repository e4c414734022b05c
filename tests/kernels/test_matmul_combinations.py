"""Everything that a fast matrix product can be asked for, together: random requests and launches, all watched."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layoutgen.execution import KINDS, STRIDES, TRANSPOSED, Launch, run_kernel
from layoutgen.kernels.expression import EPILOGUES
from tests.kernels.launching import emitted, kernel
from tests.sweep_log import examples, in_parts

FEW = (
    kernel(a_order="km", accumulate="tile", split_k=2, bias=True, epilogue="relu", out_dtype="float32"),
    kernel(b_order="nk", operand_dtype="float32", residual=True, group_m=2),
    kernel(a_order="km", b_order="nk", operand_dtype="float32", accumulate="tile", split_k=3, scale=True),
)


def launches(most):
    return st.builds(
        Launch,
        shape=st.tuples(st.integers(1, 2), st.integers(1, most), st.integers(1, most), st.integers(0, most)),
        inputs=st.sampled_from(tuple(KINDS)),
        order=st.sampled_from(tuple(TRANSPOSED)),
        strides=st.sampled_from(tuple(STRIDES)),
        misalign=st.sampled_from((0, 0, 2, 4, 16)),
        seed=st.integers(0, 2**16),
    )


def requests():
    """Any request of small tiles that is none of those refused."""
    fields = {
        "a_order": st.sampled_from(("mk", "km")),
        "b_order": st.sampled_from(("kn", "nk")),
        "block_k": st.sampled_from((16, 32)),
        "accumulate": st.sampled_from(("unit", "tile")),
        "operand_dtype": st.sampled_from((None, "float32")),
        "out_dtype": st.sampled_from(("float16", "float32")),
        "split_k": st.sampled_from((1, 1, 2, 3, 7)),
        "group_m": st.sampled_from((1, 1, 2)),
        "epilogue": st.sampled_from((*EPILOGUES, "where(x > 0.5, x, 0.25 * x)")),
        **dict.fromkeys(("scale", "bias", "residual"), st.booleans()),
    }
    tile = st.sampled_from(((32, 32, "1x1"), (64, 32, "2x1"), (64, 64, "2x2"), (32, 64, "1x2")))

    def made(tile, **given_fields):
        block_m, block_n, warps = tile
        if "2" in warps:  # every thread has a whole vector of a K tile
            given_fields["block_k"] = 32
        return kernel(block_m=block_m, block_n=block_n, warps=warps, **given_fields)

    return st.builds(made, tile=tile, **fields)


def check(made, launch):
    """Post-condition: nothing found, every error within its bound; exact where integers are not rounded."""
    result = run_kernel(emitted(made), launch)
    assert result.findings == (), [str(finding) for finding in result.findings]
    assert result.bound_share <= 1, result.as_dict()
    assert result.report.total.wavefronts == result.report.total.wavefronts_minimum
    exact = made.request.epilogue in ("none", "relu") and made.request.c_dtype == "float32"
    if launch.inputs == "integers" and exact:
        assert result.max_abs_error == 0
    return result


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(made=st.sampled_from(FEW), launch=launches(50))
def test_some(made, launch):
    check(made, launch)


@in_parts
@settings(max_examples=examples(20), deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
@given(made=requests(), launch=launches(140))
def test_sweep(record_sweep, made, launch):
    record_sweep("matmul_fast", check(made, launch))
