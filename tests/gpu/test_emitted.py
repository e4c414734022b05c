"""The emitted kernels on the GPU that is here, against float64."""

import math

import pytest

import layoutgen as lg

pytestmark = pytest.mark.gpu

OUTPUT_BOUND = 1e-3
LSE_BOUND = 1e-5


def attention_reference(torch, q, k, v, bias, scale, design):
    """float64, from Q as the kernel takes it: the simple design scales and rounds it first, the fast one the scores."""
    q = (q.float() * scale).half().double() if design == "simple" else q.double() * scale
    group = q.shape[1] // k.shape[1]
    k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2)
    if bias is not None:
        scores = scores + bias.double()
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - torch.where(lse.isinf(), 0.0, lse)[..., None])
    return weights @ v, lse


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("kv_heads", [4, 2], ids=["mha", "gqa"])
@pytest.mark.parametrize(("head_dim", "length"), [(64, 777), (80, 777), (96, 1000), (128, 777)])
@pytest.mark.parametrize("design", ["simple", "fast"])
def test_attention(torch, load, record, design, head_dim, length, kv_heads, bias):
    batch, heads = 2, 4
    module = load(lg.attention(head_dim=head_dim, bias=bias, design=design))

    def normal(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    q = normal(batch, heads, length, head_dim)
    k, v = (normal(batch, kv_heads, length, head_dim) for _ in range(2))
    out = torch.full_like(q, math.nan)
    lse = torch.full(q.shape[:-1], math.nan, device="cuda")
    added = normal(batch, 1, length, length).expand(batch, heads, length, length) if bias else None
    module.attention(q, k, v, out, lse, *([added] if bias else []))
    want, want_lse = attention_reference(torch, q, k, v, added, head_dim**-0.5, design)
    error, lse_error = (out.double() - want).abs().max().item(), (lse.double() - want_lse).abs().max().item()
    case = f"attention {design} D={head_dim} T={length} H={heads}/{kv_heads}{' bias' if bias else ''}"
    record(case, f"max error {error:.2e}, LSE {lse_error:.2e}", f"{OUTPUT_BOUND:g}, {LSE_BOUND:g}")
    assert error < OUTPUT_BOUND
    assert lse_error < LSE_BOUND


def test_rows_that_see_no_key(torch, load, record):
    """Output 0 and LSE -inf, without a NaN anywhere; a bias of the lowest finite number weighs all keys alike."""
    module = load(lg.attention(head_dim=64, bias=True))
    q, k, v = (torch.randn((1, 1, 100, 64), device="cuda", dtype=torch.float16) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty((1, 1, 100), device="cuda")
    bias = torch.zeros((1, 1, 100, 100), device="cuda")
    bias[0, 0, 3] = -math.inf
    bias[0, 0, 5] = torch.finfo(torch.float32).min
    bias[0, 0, 7, :50] = -math.inf
    module.attention(q, k, v, out, lse, bias)
    assert not out.isnan().any()
    assert not lse.isnan().any()
    assert (out[0, 0, 3] == 0).all()
    assert lse[0, 0, 3] == -math.inf
    torch.testing.assert_close(out[0, 0, 5].float(), v[0, 0].float().mean(0), atol=1e-3, rtol=0)
    seen = torch.softmax((q[0, 0, 7].float() @ k[0, 0, 50:].float().T) / 8, -1) @ v[0, 0, 50:].float()
    torch.testing.assert_close(out[0, 0, 7].float(), seen, atol=1e-3, rtol=0)
    record("attention, masked rows", "0, -inf, uniform weights, no NaN", "exact")


@pytest.mark.parametrize("b_order", ["kn", "nk"])
@pytest.mark.parametrize("block", [(64, 64, 32), (128, 128, 32)], ids=["64x64x32", "128x128x32"])
@pytest.mark.parametrize("kind", ["integers", "normal"])
@pytest.mark.parametrize("design", ["simple", "fast"])
def test_matmul(torch, load, record, design, block, b_order, kind):
    batch, m, n, k = 2, 333, 257, 515
    block_m, block_n, block_k = block
    tile = {"block_m": block_m, "block_n": block_n, "block_k": block_k}
    module = load(lg.matmul(**tile, b_order=b_order, out_dtype="float32", design=design))

    def values(*shape):
        if kind == "integers":  # |sum| <= 515 * 8 * 8, far below 2^24: every order of summation is exact
            return torch.randint(-8, 9, shape, device="cuda").half()
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    a = values(batch, m, k)
    b = values(batch, k, n) if b_order == "kn" else values(batch, n, k)
    c = torch.full((batch, m, n), math.nan, device="cuda")
    module.matmul(a, b, c)
    want = a.double() @ (b if b_order == "kn" else b.transpose(1, 2)).double()
    error = ((c.double() - want).abs().max() / want.abs().max()).item()
    bound = 0.0 if kind == "integers" else 2e-6
    name = "x".join(map(str, block))
    record(
        f"matmul {design} {name} B {b_order}, {batch}x{m}x{n}x{k}, {kind}", f"max error / max {error:.2e}", f"{bound:g}"
    )
    assert error <= bound


def test_matmul_with_any_strides(torch, load, record):
    """Transposed, sliced and broadcast operands, and an output with gaps."""
    module = load(lg.matmul(block_m=64, block_n=64, block_k=32))
    a = torch.randint(-4, 5, (70, 90), device="cuda").half().T  # [90, 70], k along the rows
    b = torch.randint(-4, 5, (140, 200), device="cuda").half()[::2, 3:80]  # [70, 77] with gaps
    whole = torch.zeros((2, 90, 154), device="cuda", dtype=torch.float16)
    module.matmul(a.expand(2, 90, 70), b.expand(2, 70, 77), whole[:, :, ::2])
    want = a.double() @ b.double()
    assert (whole[:, :, ::2].double() == want).all()
    assert (whole[:, :, 1::2] == 0).all()
    record("matmul, transposed, sliced, expanded operands", "exact", "exact")


def test_offsets_beyond_32_bits(torch, load, record):
    """Rows 2^27 elements apart: from row 16 on an offset does not fit 32 bits. Needs 18 GB on the card."""
    module = load(lg.matmul(block_m=64, block_n=64, block_k=32))
    rows, stride = 66, 2**27
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        record("matmul, offsets beyond 2^31", "not run: the card has too little memory", "exact")
        return
    a = torch.empty_strided((rows, 8), (stride, 1), device="cuda", dtype=torch.float16)
    a.copy_(torch.randint(-4, 5, (rows, 8), device="cuda"))
    b = torch.randint(-4, 5, (8, 16), device="cuda").half()
    c = torch.empty((rows, 16), device="cuda", dtype=torch.float16)
    module.matmul(a, b, c)
    assert (c.double() == a.double() @ b.double()).all()
    record("matmul, offsets beyond 2^31", "exact", "exact")
