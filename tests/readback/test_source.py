"""An edited file loses its proof: every layout literal, mutated, is refuted."""

import re

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError, RefutedError
from layoutgen.readback.source import check_literals, prove_source, read_literals

ATTENTION = lg.attention(head_dim=96)
MATMUL = lg.matmul(block_m=64, block_n=64)


def usual(kernel):
    """Whether a kernel of the default set is proved in every run of the tests: the fast ones take seconds each."""
    request = kernel.request
    return request.design == "simple" or getattr(request, "head_dim", None) in (80, 256)


def prove(kernel, source, path):
    return [v for v in prove_source(path, source, kernel.request) if not v.holds]


@pytest.mark.parametrize("kernel", [
    pytest.param(kernel, id=repr(kernel), marks=[] if usual(kernel) else [pytest.mark.sweep])
    for kernel in lg.default_set()
])  # fmt: skip
def test_what_is_emitted_is_proved(kernel, tmp_path):
    verdicts = prove_source(tmp_path, kernel.source, kernel.request)
    assert all(verdict.holds for verdict in verdicts)
    assert {verdict.obligation.claim for verdict in verdicts} == {1, 2, 3, 4, 5, 6}


def literal_names(kernel):
    return re.findall(
        r"^(\w+) = gl.constexpr\(\s*gl.(?:DistributedLinearLayout|BlockedLayout)", kernel.source, re.MULTILINE
    )


def mutate_linear(source, name, field, index):
    """Replace one basis of one literal by zero, or a zero basis by another one of its field."""
    start = source.index(f"{name} = gl.constexpr")
    stop = source.index("\n)\n", start)
    literal = source[start:stop]
    block = re.search(rf"{field}=\[\n(.*?)\n        \]", literal, re.DOTALL)
    rows = block[1].split("\n")
    bases = [re.search(r"\[[\d, ]+\]", row)[0] for row in rows]
    zero = "[" + ", ".join("0" for _ in bases[0].split(",")) + "]"
    other = next(basis for basis in [*bases, *re.findall(r"\[[\d, ]+\]", literal)] if basis != zero)
    rows[index] = rows[index].replace(bases[index], zero if bases[index] != zero else other)
    mutated = literal.replace(block[1], "\n".join(rows))
    assert mutated != literal
    return source[:start] + mutated + source[stop:]


@pytest.mark.parametrize("name", [name for name in literal_names(MATMUL) if not name.startswith("TILE")])
@pytest.mark.parametrize(("field", "count"), [("reg_bases", 5), ("lane_bases", 5), ("warp_bases", 2)])
def test_every_basis_counts(name, field, count, tmp_path):
    for index in range(count):
        refuted = prove(MATMUL, mutate_linear(MATMUL.source, name, field, index), tmp_path)
        assert refuted, f"{name} {field}[{index}] may be anything"
        assert any(name in verdict.obligation.name for verdict in refuted)


@pytest.mark.parametrize("name", [name for name in literal_names(ATTENTION) if not name.startswith("TILE")])
def test_every_layout_of_attention_counts(name, tmp_path):
    refuted = prove(ATTENTION, mutate_linear(ATTENTION.source, name, "reg_bases", 1), tmp_path)
    assert any(name in verdict.obligation.name for verdict in refuted)


@pytest.mark.parametrize("edit", [("[4, 2], [1, 32]", "[4, 2], [2, 32]"), ("[1, 8], [8, 4]", "[2, 8], [16, 4]")])
def test_a_staging_that_no_longer_fits_the_warp_is_refused(edit, tmp_path):
    source = ATTENTION.source.replace(*edit)
    assert source != ATTENTION.source
    with pytest.raises(LayoutgenError, match="has 64 of dim lane; the kernel runs with 32"):
        prove(ATTENTION, source, tmp_path)


def test_a_missing_layout_is_an_error(tmp_path):
    source = MATMUL.source.replace("MATRIX_C = gl", "MATRIX_D = gl")
    with pytest.raises(LayoutgenError, match="has no layout MATRIX_C; emit the file again"):
        prove_source(tmp_path, source, MATMUL.request)


def test_a_malformed_literal_is_an_error(tmp_path):
    with pytest.raises(LayoutgenError, match="X is not a layout literal"):
        read_literals(tmp_path, "X = gl.constexpr(gl.DistributedLinearLayout(reg_bases=f(), shape=[1]))")


def test_layouts_that_would_abort_triton_are_refused_before_it(tmp_path):
    check_literals(tmp_path, MATMUL.source)
    swizzled = MATMUL.source.replace("[8, 0],  # q0: m3", "[12, 0],  # q0: m3")
    with pytest.raises(RefutedError, match=r"basis lane2 = \[12, 0\] moves several bits"):
        check_literals(tmp_path, swizzled)
    orphans = MATMUL.source.replace("[8, 0],  # q0: m3", "[4, 0],  # q0: m3")
    with pytest.raises(RefutedError, match="nobody holds some elements"):
        check_literals(tmp_path, orphans)


def test_a_blocked_layout_of_another_rank_is_an_error(tmp_path):
    source = MATMUL.source.replace("[2, 2], [1, 0]))", "[2, 2], [1, 3]))").replace(
        "[4, 1], [1, 0]))", "[4, 1], [1, 3]))"
    )
    assert source != MATMUL.source
    with pytest.raises(LayoutgenError, match="the order must name each of its dims once"):
        prove(MATMUL, source, tmp_path)
