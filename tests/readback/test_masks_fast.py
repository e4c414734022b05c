"""Claim 6 of the fast designs: proved as emitted; refuted for edits, with a witness that execution confirms."""

import re
from pathlib import Path

import pytest

import layoutgen as lg
from layoutgen.execution import Launch, run_kernel
from layoutgen.proofs import Refutation
from layoutgen.readback.masks import prove_masks
from layoutgen.toolchain import read_kernel

ORDERS = [(a, b) for a in ("mk", "km") for b in ("kn", "nk")]
FEATURES: tuple[dict[str, object], ...] = (
    {},
    {"causal": True},
    {"causal": True, "alignment": "bottom-right"},
    {"window": (20, 0)},
    {"window": (5, 7), "alignment": "bottom-right"},
    {"window": (-1, 7)},
    {"window": (18, -1), "alignment": "bottom-right"},
    {"bias": True},
    {"bias": True, "causal": True},
    {"mask": True},
    {"mask": True, "bias": True, "causal": True},
    {"bias": True, "window": (7, 9), "alignment": "bottom-right", "sinks": True},
    {"sinks": True, "softcap": 3.0, "out_dtype": "float32"},
)


def attention(head_dim: int = 16, **options: object) -> lg.Kernel:
    return lg.attention(head_dim=head_dim, design="fast", **{"block_m": 32, "block_n": 16, **options})  # type: ignore


def matmul(a_order: str = "mk", b_order: str = "kn", **options: object) -> lg.Kernel:
    small = {"block_m": 32, "block_n": 32, "block_k": 16, "warps": "1x1", **options}
    return lg.matmul(design="fast", a_order=a_order, b_order=b_order, **small)  # type: ignore


def name_of(features: dict[str, object]) -> str:
    return "-".join(f"{name}={value}" for name, value in features.items()) or "plain"


def proved(made: lg.Kernel) -> set[str]:
    verdicts = prove_masks(made.source, made.request)
    assert all(verdict.holds for verdict in verdicts), [str(v) for v in verdicts if not v.holds]
    assert {verdict.obligation.claim for verdict in verdicts} == {6}
    return {verdict.obligation.name.split(" of ")[1].removesuffix(" cover it") for verdict in verdicts}


@pytest.mark.parametrize("features", FEATURES, ids=name_of)
def test_attention_is_proved(features: dict[str, object]) -> None:
    names = {"q", "k", "v", "out", "lse", "the scores cover what is seen"}
    assert proved(attention(**features)) == names | ({"bias", "mask", "sinks"} & set(features))


@pytest.mark.parametrize("head_dim", [16, 40, 72, 128, 192, 256])
def test_every_kind_of_split_is_proved(head_dim: int) -> None:
    proved(attention(head_dim, causal=True, block_m=64, block_n=32))


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
@pytest.mark.parametrize("group_m", [1, 3])
def test_matmul_is_proved(a_order: str, b_order: str, group_m: int) -> None:
    options = {"bias": True, "residual": True, "out_dtype": "float32"}
    assert proved(matmul(a_order, b_order, group_m=group_m, **options)) == {"a", "b", "c", "bias", "residual"}


@pytest.mark.parametrize(("block_m", "block_n", "block_k", "warps"), [(128, 128, 32, "4x2"), (64, 128, 64, "2x4")])
def test_tiles_and_accumulate_modes_are_proved(block_m: int, block_n: int, block_k: int, warps: str) -> None:
    for accumulate in ("unit", "tile"):
        proved(matmul(block_m=block_m, block_n=block_n, block_k=block_k, warps=warps, accumulate=accumulate))


PARTS: dict[str, object] = {"operand_dtype": "float32"}
SEVERAL: tuple[dict[str, object], ...] = (
    {"split_k": 2},
    {"split_k": 3, "group_m": 2, "residual": True},
    {"operand_dtype": "float32", "a_order": "km", "b_order": "nk"},
    {"operand_dtype": "float32", "split_k": 2, "bias": True},
)


@pytest.mark.parametrize("features", SEVERAL, ids=name_of)
def test_each_of_several_kernels_is_proved(features: dict[str, object]) -> None:
    made = matmul(**features)  # type: ignore
    verdicts = prove_masks(made.source, made.request)
    assert all(verdict.holds for verdict in verdicts), [str(v) for v in verdicts if not v.holds]
    assert {verdict.obligation.name.split(":")[0] for verdict in verdicts} == set(made.request.kernels)


# ---- what must fail


def refuted(made: lg.Kernel, old: str, new: str) -> list[Refutation]:
    assert old in made.source, f"{old} is not in the file"
    verdicts = prove_masks(made.source.replace(old, new), made.request)
    found = [verdict for verdict in verdicts if isinstance(verdict, Refutation)]
    assert found, f"{new} is taken for right"
    return found


CAUSAL, WINDOW = {"causal": True}, {"bias": True, "window": (7, 9), "alignment": "bottom-right"}
PLAIN: dict[str, object] = {}
MASK: dict[str, object] = {"mask": True, "bias": True}
ALIGNED: dict[str, object] = {"mask": True, "causal": True}
APPLIED = '    scores = gl.where(attended != 0, scores, -float("inf"))\n'
SWEPT = pytest.mark.sweep
ATTENTION_EDITS: list[object] = [
    (PLAIN, "mask=row < rows, ", "", "touched"),
    (PLAIN, "mask=row < rows", "mask=row <= rows", "touched"),
    pytest.param(PLAIN, "mask=row < rows", "mask=row < rows - 1", "missed", marks=SWEPT),
    (PLAIN, "row < queries", "row <= queries", "touched"),
    (PLAIN, "t_k // 16 - 1", "t_k // 16", "touched"),
    pytest.param(PLAIN, "keys_left - 16, 16", "keys_left, 16", "touched", marks=SWEPT),
    (PLAIN, "range(0, unmasked_tiles)", "range(1, unmasked_tiles)", "missed"),
    pytest.param(PLAIN, "            tile * 16,\n", "            (tile + 1) * 16,\n", "touched", marks=SWEPT),
    (PLAIN, "grid = (-(-t_q // 32)", "grid = (t_q // 32", "missed"),
    (CAUSAL, "gl.minimum(t_k // 16 - 1, reach // 16)", "reach // 16", "touched"),
    (CAUSAL, "range(unmasked_tiles, tiles)", "range(unmasked_tiles + 1, tiles)", "missed"),
    pytest.param(CAUSAL, "own_key = first_query", "own_key = first_query - 40", "missed", marks=SWEPT),
    pytest.param(WINDOW, "first_query + t_k - t_q", "first_query + t_q - t_k", "missed", marks=SWEPT),
    (WINDOW, "gl.maximum(own_key - 7, 0) // 16", "gl.cdiv(gl.maximum(own_key - 7, 0), 16)", "missed"),
    pytest.param(WINDOW, "gl.maximum(own_key - 7, 0) // 16", "gl.maximum(own_key - 6, 0) // 16", "missed", marks=SWEPT),
    (WINDOW, "gl.maximum(own_key - 7, 0) // 16", "(own_key - 7) // 16", "touched"),
    (WINDOW, "range(clear, unmasked_tiles)", "range(clear, unmasked_tiles + 1)", "touched"),
    (WINDOW, "t_q - 1)", "t_q)", "touched"),
    (WINDOW, "mask=column < keys_left", "mask=column <= keys_left", "touched"),
    pytest.param(WINDOW, "bias_row, first, keys", "bias_row, first + 16, keys", "touched", marks=SWEPT),
    (WINDOW, "t_k - first_key", "t_k", "touched"),
    pytest.param({"sinks": True}, "first_query + row < t_q", "first_query + row <= t_q", "touched", marks=SWEPT),
    (ALIGNED, 'asm="mov.b32 $0, $1;"', 'asm="neg.s32 $0, $1;"', "followed"),
    (ALIGNED, "(t_k >> 4) - 1", "(t_k >> 4)", "touched"),
    (ALIGNED, "t_k) + 15) >> 4", "t_k)) >> 4", "missed"),
    pytest.param(ALIGNED, "reach >> 4", "reach >> 3", "not seen", marks=SWEPT),
    # What is loaded stays right in these; what is attended does not.
    (PLAIN, "tiles = gl.cdiv(t_k, 16)", "tiles = t_k // 16", "missed"),
    pytest.param(PLAIN, "tiles = gl.cdiv(t_k, 16)", "tiles = gl.cdiv(t_k, 16) - 1", "missed", marks=SWEPT),
    (PLAIN, ") < keys_left - (column", ") <= keys_left - (column", "not seen"),
    (PLAIN, "(column & 9) < keys_left - (column & 6)", "(column & 9) < keys_left - (column & 7)", "followed"),
    (PLAIN, "first, keys_left, 16", "first - 16, keys_left, 16", "off those of its tile"),
    (PLAIN, "range(unmasked_tiles, tiles)", "range(gl.maximum(unmasked_tiles - 1, 0), tiles)", "weighed twice"),
    (PLAIN, "first + 16, keys_left", "first, keys_left", "off those of the next tile"),
    (CAUSAL, "gl.minimum(last_reach, t_k)", "gl.minimum(reach, t_k)", "missed"),
    (CAUSAL, "gl.maximum(own_key + 1, 0)", "gl.maximum(own_key + 33, 0)", "not seen"),
    (CAUSAL, ") <= own)", ") <= own + 1)", "not seen"),
    (CAUSAL, ") <= own)", ") < own)", "missed"),
    (CAUSAL, "own += row & 18", "own += row & 16", "followed"),
    (CAUSAL, "gl.num_programs(0) - 1 - gl.program_id(0)", "gl.num_programs(0) - 2 - gl.program_id(0)", "followed"),
    (CAUSAL, "own_key - tile * 16,\n            True", "own_key,\n            True", "not seen"),
    (WINDOW, "gl.maximum(clear, unmasked_tiles), tiles", "unmasked_tiles, tiles", "weighed twice"),
    (WINDOW, ") >= own - 7", ") > own - 7", "missed"),
    (WINDOW, "own_key + 24, 0)", "own_key - 8, 0)", "not seen"),
    (WINDOW, "first_key = first_tile * 16", "first_key = first_tile * 16 + 1", "not those loaded first"),
    # Masks that are made right and applied wrongly.
    (MASK, "attended != 0, scores", "attended == 0, scores", "(attended == 0, scores, -float('inf'))"),
    (MASK, APPLIED, "", "there is no such statement"),
    (MASK, APPLIED, APPLIED + APPLIED, "there is 2 times that"),
    (MASK, 'attended != 0, scores, -float("inf")', "attended != 0, scores, 0.0", "(attended != 0, scores, 0.0)"),
    (MASK, APPLIED, APPLIED + "    scores = gl.maximum(scores, 0.0)\n", "(scores, 0.0)"),
    (MASK, APPLIED, APPLIED + "    scores += added\n", "scores += added"),
    (MASK, APPLIED, "    attended = attended + 1\n" + APPLIED, "that of this tile"),
    (MASK, APPLIED, "    if masked:\n    " + APPLIED, "in the same block"),
    (MASK, APPLIED, "    weights = gl.exp2(scores)\n" + APPLIED, "after a use of the scores"),
    (MASK, "load_scores(mask, stride_mq, ", "load_scores(mask, 0, ", "that of this tile"),
    (MASK, "    tile = tile.reshape", "    tile = 1 - tile\n    tile = tile.reshape", "changed by tile = 1 - tile"),
    (MASK, "else gl.load(pointer + offset)", "else gl.load(pointer + offset) == 0", "== 0"),
    (MASK, "    tile = tile.reshape", "    tile += 1\n    tile = tile.reshape", "changed by tile += 1"),
    (MASK, "bias_row, first, keys", "bias_row, first + 16, keys", "off those of its tile"),
    (CAUSAL, '        scores = gl.where(visible, scores, -float("inf"))\n', "", "there is no such statement"),
    (CAUSAL, "where(visible, scores", "where(~visible, scores", "(~visible, scores, -float('inf'))"),
]  # fmt: skip


@pytest.mark.parametrize(("features", "old", "new", "how"), ATTENTION_EDITS)
def test_an_edit_of_attention_is_refuted(features: dict[str, object], old: str, new: str, how: str) -> None:
    assert any(verdict.witness.endswith(how) for verdict in refuted(attention(**features), old, new))


def test_the_claim_says_what_it_is_not_about() -> None:
    def claim(**features: object) -> str:
        made = attention(**features)
        return prove_masks(made.source, made.request)[-1].obligation.statement

    assert "that it sees and its mask attends, once, and no other; what" in claim(mask=True)
    assert "which of them a bias of -inf hides is not looked at" in claim(bias=True)
    assert "that it sees, once, and no other; K and V of a tile are its own" in claim()


MATMUL_EDITS = [
    ("m - 1 - row", "m - row", "touched"),
    ("m - 1 - row", "m - 2 - row", "touched"),
    ("n % 32 == 0", "n % 16 == 0", "touched"),
    ("n % 32 == 0", "True", "touched"),
    ("n % 32 == 0", "n >= 32", "touched"),
    ("mask=index < left", "mask=index <= left", "touched"),
    ("// 16 - 1, 0)", "// 16, 0)", "touched"),
    ("more // 2", "(more + 1) // 2", "touched"),
    ("range(0, more // 2)", "range(0, more // 2 - 1)", "missed"),
    ("more % 2 == 1", "more % 2 == 0", "touched"),
    ("a_k < left", "a_k <= left", "touched"),
    ("(b_k < left) & ", "", "touched"),
    ("skipped = (more * 16)", "skipped = (more * 32)", "touched"),
    ("a_pointer += 32 * stride_ak", "a_pointer += 16 * stride_ak", "missed"),
    ("(row < m) & (column < n)", "(row < m)", "touched"),
    ("(row < m) & (column < n)", "(row < m) & (column < m)", "missed"),
    ("c_row,", "c_row + 1,", "missed"),
]


@pytest.mark.parametrize(("old", "new", "how"), MATMUL_EDITS)
def test_an_edit_of_matmul_is_refuted(old: str, new: str, how: str) -> None:
    made = matmul(group_m=2, bias=True)
    assert any(verdict.witness.endswith(how) for verdict in refuted(made, old, new))


@pytest.mark.parametrize(
    ("features", "old", "new", "how"),
    [
        (SEVERAL[0], "gl.minimum(gl.maximum(k - begin, 0), run)", "gl.maximum(k - begin + 1, 0)", "touched"),
        pytest.param(SEVERAL[0], "(k + 31) // 32 * 16", "k // 32 * 16", "missed", marks=SWEPT),
        (SEVERAL[0], "place * stride_pz", "batch * stride_pz", "missed"),
        (SEVERAL[0], "gl.static_range(1)", "gl.static_range(2)", "touched"),
        (PARTS, "range(0, k_padded, ", "range(0, k_padded - 16, ", "missed"),
        (
            SEVERAL[3],
            "kept = (row[:, None] < m_padded) & (start + step < k_padded)",
            "kept = row[:, None] < m",
            "touched",
        ),
        (PARTS, "place + 2 * third", "place + third", "missed"),
        (PARTS, "a_exponents += batch * m", "a_exponents += batch * m + 1", "touched"),
    ],
)
def test_an_edit_of_several_kernels_is_refuted(features: dict[str, object], old: str, new: str, how: str) -> None:
    assert any(verdict.witness.endswith(how) for verdict in refuted(matmul(**features), old, new))  # type: ignore


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("inner % height", "inner % 2"),
        ("inner // height * 32", "inner // height * 16"),
        ("gl.minimum((m + 31) // 32 - first, 2)", "2"),
        ("gl.program_id(0) // wide_row * 2", "gl.program_id(0) // wide_row"),
        ("gl.load(pointer)", "gl.load(turned(pointer))"),
        ("b_pointer = b + ", "b_pointer = b + b_k * b_column + "),
    ],
)
def test_what_is_not_followed_is_not_proved(old: str, new: str) -> None:
    assert refuted(matmul(group_m=2), old, new)


def test_a_permutation_is_not_independent_of_what_it_permutes() -> None:
    """Rows in another order than the mask's: each is inside, and others are missed."""
    made = attention(**WINDOW)
    source = made.source.replace("    row = key_of(row)\n", "    other = row\n    row = key_of(row)\n", 1)
    source = source.replace("row, start + column, stop", "other, start + column, stop", 1)
    assert source != made.source
    edited = source.replace("mask=row < rows", "mask=(row < rows) & (key_of(row) < rows)")
    found = [v for v in prove_masks(edited, made.request) if isinstance(v, Refutation)]
    assert any("used together" in verdict.witness for verdict in found)


SIZES = re.compile(r"(batch|heads|kv_heads|t_q|t_k|m|n|k) = (\d+)")
CONFIRMED = [
    (attention(**CAUSAL), "range(unmasked_tiles, tiles)", "range(unmasked_tiles + 1, tiles)"),
    (matmul(group_m=2), "m - 1 - row", "m - row"),
    (matmul(group_m=2), "n % 32 == 0", "n % 16 == 0"),
    pytest.param(attention(), "mask=row < rows", "mask=row <= rows", marks=SWEPT),
    pytest.param(attention(**WINDOW), "t_q - 1)", "t_q)", marks=SWEPT),
    pytest.param(matmul(group_m=2), "range(0, more // 2)", "range(0, more // 2 - 1)", marks=SWEPT),
]


@pytest.mark.parametrize(("made", "old", "new"), CONFIRMED)
def test_execution_confirms_the_witness(made: lg.Kernel, old: str, new: str, tmp_path: Path) -> None:
    """At the lengths of the witness the edited kernel is wrong; the one that was emitted is right there."""
    witness = refuted(made, old, new)[0].witness
    size = {name: int(value) for name, value in SIZES.findall(witness)}
    if made.request.family == "attention":
        heads = max(size.get("heads", 1), size.get("kv_heads", 1))
        shape = (1, heads, heads, size.get("t_q", 1), size.get("t_k", 1), made.request.head_dim)
    else:
        shape = (1, size.get("m", 1), size.get("n", 1), size.get("k", 1))
    for name, source, right in (("emitted", made.source, True), ("edited", made.source.replace(old, new), False)):
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        assert run_kernel(read_kernel(path), Launch(shape, inputs="nan")).passed == right, witness


def test_a_store_that_is_not_followed_is_the_fault_of_what_rests_on_it_alone() -> None:
    """The queries of a block are read off the stores of lse: K, V and the scores rest on them, Q and O do not."""
    made = attention()
    source = made.source.replace("lse + row.to(gl.int64) * stride_lt", "lse + row.to(gl.int64) * stride_ot")
    assert source != made.source
    verdicts = {verdict.obligation.name: verdict for verdict in prove_masks(source, made.request)}
    wrong = {name.split(" of ")[1].removesuffix(" cover it") for name, verdict in verdicts.items() if not verdict.holds}
    assert wrong == {"lse", "k", "v", "the scores cover what is seen"}
    assert "its stores of lse: " in str(verdicts["loads of k cover it"])
