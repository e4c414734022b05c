"""fragments: the ISA's formulas against an independent spelling in bits, and mma.sync against a matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutgen.cpu import ArithmeticUnavailableError, Tensor, launch
from layoutgen.cpu.fragments import FragmentError, Fragments, fragments

FORMS = [
    *[("m8n8k4", a, b, t) for a in ("row", "col") for b in ("row", "col") for t in ("f32", "f16")],
    *[(shape, "row", "col", t) for shape in ("m16n8k8", "m16n8k16") for t in ("f32", "f16")],
]


def bit(value: int, index: int) -> int:
    return value >> index & 1


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_register_holds_exactly_one_element(form: tuple[str, str, str, str]) -> None:
    table = fragments(*form)
    for rows, elements in ((table.a, table.a_elements), (table.b, table.b_elements), (table.c, table.c_elements)):
        assert sorted(rows.ravel().tolist()) == list(range(32 * elements))


def test_m8n8k4_in_bits() -> None:
    """lane = a0 + 2 a1 + 4 q0 + 8 q1 + 16 b; the tables of the project's facts, f32 accumulator, row.col."""
    table = fragments("m8n8k4", "row", "col", "f32")
    for lane in range(32):
        a0, a1, b = bit(lane, 0), bit(lane, 1), bit(lane, 4)
        q, t = bit(lane, 2) + 2 * bit(lane, 3), a0 + 2 * a1 + 4 * b
        for v in range(8):
            m, n = a0 + 2 * bit(v, 1) + 4 * b, bit(v, 0) + 2 * a1 + 4 * bit(v, 2)
            assert table.c[q, m, n] == v * 32 + lane
        for i in range(4):
            assert table.a[q, t, i] == i * 32 + lane
            assert table.b[q, i, t] == i * 32 + lane


def test_m8n8k4_transposed_in_bits() -> None:
    table = fragments("m8n8k4", "col", "row", "f16")
    for lane in range(32):
        a0, a1, b = bit(lane, 0), bit(lane, 1), bit(lane, 4)
        q, k = bit(lane, 2) + 2 * bit(lane, 3), a0 + 2 * a1
        for i in range(4):
            assert table.a[q, i + 4 * b, k] == i * 32 + lane
            assert table.b[q, k, i + 4 * b] == i * 32 + lane
        for i in range(8):
            assert table.c[q, k + 4 * b, i] == i * 32 + lane


@pytest.mark.parametrize("shape", ["m16n8k8", "m16n8k16"])
def test_m16n8_in_bits(shape: str) -> None:
    table = fragments(shape, "row", "col", "f32")
    for lane in range(32):
        group, t = lane >> 2, lane & 3
        for v in range(4):
            assert table.c[0, group + 8 * bit(v, 1), 2 * t + bit(v, 0)] == v * 32 + lane
        for i in range(table.a_elements):
            assert table.a[0, group + 8 * bit(i, 1), 2 * t + bit(i, 0) + 8 * bit(i, 2)] == i * 32 + lane
        for i in range(table.b_elements):
            assert table.b[0, 2 * t + bit(i, 0) + 8 * bit(i, 1), group] == i * 32 + lane


@pytest.mark.parametrize(
    "form", [("m8n8k4", "row", "col", "s32"), ("m16n8k8", "col", "col", "f32"), ("m8n8k16", "row", "col", "f32")]
)
def test_unknown_forms_are_refused(form: tuple[str, str, str, str]) -> None:
    with pytest.raises(FragmentError):
        fragments(*form)


# The instruction -------------------------------------------------------------------------------------------


def _registers(rows: Any, values: Any, elements: int) -> Any:
    """Matrix elements -> [element, lane]."""
    held = np.zeros(elements * 32, values.dtype)
    held[rows.ravel()] = values.ravel()
    return held.reshape(elements, 32)


def _kernel(form: tuple[str, str, str, str], table: Fragments, operand: str) -> str:
    shape, a_layout, b_layout, t = form
    counts = [table.a_elements // 2, table.b_elements // 2, table.c_elements // (2 if t == "f16" else 1)]
    lists, body = [], []
    for number, count in enumerate(counts):
        names = [f"%f{number}x{i}" for i in range(count)]
        lists.append("{" + ", ".join(names) + "}")
        body.append(f".reg .b32 {', '.join(names)};")
        for i, name in enumerate(names):
            body.append(f"ld.global.b32 {name}, [%rd{number} + {128 * i}];")
    outs = [f"%d{i}" for i in range(counts[2])]
    body.append(f".reg .b32 {', '.join(outs)};")
    body.append(
        f"mma.sync.aligned.{shape}.{a_layout}.{b_layout}.{t}.{operand}.{operand}.{t} "
        f"{{{', '.join(outs)}}}, {lists[0]}, {lists[1]}, {lists[2]};"
    )
    body += [f"st.global.b32 [%rd3 + {128 * i}], {name};" for i, name in enumerate(outs)]
    loads = "".join(f"ld.param.u64 %rd{i}, [p{i}]; mad.wide.u32 %rd{i}, %r0, 4, %rd{i};\n" for i in range(4))
    return f""".version 8.8
.target sm_80
.visible .entry one(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) .reqntid 32 {{
.reg .b32 %r<2>; .reg .b64 %rd<4>;
mov.u32 %r0, %tid.x;
{loads}{chr(10).join(body)}
ret; }}"""


def _multiply(form: tuple[str, str, str, str], operand: str, mma: str) -> tuple[Any, Any]:
    """Run one mma.sync on small integers; what it gave and the product, both [group, m, n]."""
    table = fragments(*form)
    rng = np.random.default_rng(5)
    a = rng.integers(-4, 5, (table.groups, table.m, table.k)).astype(np.float32)
    b = rng.integers(-4, 5, (table.groups, table.k, table.n)).astype(np.float32)
    c = rng.integers(-9, 10, (table.groups, table.m, table.n)).astype(np.float32)
    packed = form[3] == "f16"

    def words(rows: Any, values: Any, elements: int, kind: str) -> Any:
        if kind == "f32":
            return _registers(rows, values, elements)
        if kind == "bf16":
            bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        else:
            bits = values.astype(np.float16).view(np.uint16)
        held = _registers(rows, bits, elements)
        return held[0::2].astype(np.uint32) | (held[1::2].astype(np.uint32) << 16)

    tensors = [
        Tensor.input("a", words(table.a, a, table.a_elements, operand)),
        Tensor.input("b", words(table.b, b, table.b_elements, operand)),
        Tensor.input("c", words(table.c, c, table.c_elements, form[3])),
    ]
    registers = table.c_elements // 2 if packed else table.c_elements
    out = Tensor.output("d", (registers, 32), "u4" if packed else "f4")
    report = launch(_kernel(form, table, operand), 1, 1, [*tensors, out], mma=mma)
    assert report.clean, str(report)
    assert report.total.mma == 1
    held = out.array
    if packed:
        halves = np.stack([held & 0xFFFF, held >> 16], axis=1).reshape(-1, 32)
        held = halves.astype(np.uint16).view(np.float16).astype(np.float32)
    return held.reshape(-1)[table.c], a @ b + c


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_mma_exact(form: tuple[str, str, str, str]) -> None:
    got, want = _multiply(form, "f16", "exact")
    assert (got == want).all()


@pytest.mark.parametrize("form", [f for f in FORMS if f[0] == "m8n8k4"], ids=str)
def test_mma_v100(form: tuple[str, str, str, str]) -> None:
    got, want = _multiply(form, "f16", "v100")
    assert (got == want).all()


def test_mma_bf16() -> None:
    for shape in ("m16n8k8", "m16n8k16"):
        got, want = _multiply((shape, "row", "col", "f32"), "bf16", "exact")
        assert (got == want).all()


@pytest.mark.parametrize("shape", ["m16n8k8", "m16n8k16"])
def test_v100_refuses_what_no_v100_has(shape: str) -> None:
    with pytest.raises(ArithmeticUnavailableError, match=r"no V100 has mma\.sync\.aligned\.m16"):
        _multiply((shape, "row", "col", "f32"), "f16", "v100")


def test_transposed_operand_is_noticed() -> None:
    """The four storage orders of m8n8k4 give four results on the same registers."""
    seen = set()
    rng = np.random.default_rng(6)
    regs = [rng.standard_normal((2, 32, 2)).astype(np.float16).view(np.uint32)[..., 0] for _ in range(2)]
    for a_layout in ("row", "col"):
        for b_layout in ("row", "col"):
            form = ("m8n8k4", a_layout, b_layout, "f32")
            out = Tensor.output("d", (8, 32), "f4")
            tensors = [Tensor.input("a", regs[0]), Tensor.input("b", regs[1])]
            zero = Tensor.input("c", np.zeros((8, 32), np.float32))
            launch(_kernel(form, fragments(*form), "f16"), 1, 1, [*tensors, zero, out])
            seen.add(out.array.tobytes())
    assert len(seen) == 4
