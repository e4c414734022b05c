"""What only the fast designs can be asked for, on the GPU that is here, against float64."""

import math

import pytest

import layoutgen as lg

pytestmark = pytest.mark.gpu

OUTPUT_BOUND = 1e-3
LSE_BOUND = 1e-5
BOTTOM_RIGHT = {"alignment": "bottom-right"}
HEAD_DIMS = (16, 32, 40, 72, 88, 112, 160, 192, 256)


def attention_reference(torch, request, tensors, scale):
    """The order of the features is: scale, softcap, bias, causality and window, sinks in the denominator alone."""
    q, k, v = (tensors[name].double() for name in "qkv")
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = (q @ k.transpose(-1, -2)) * scale
    if request.softcap is not None:
        scores = request.softcap * torch.tanh(scores / request.softcap)
    if "bias" in tensors:
        scores = scores + tensors["bias"].double()
    t_q, t_k = scores.shape[-2:]
    own = torch.arange(t_q, device=q.device)[:, None]
    if request.alignment == "bottom-right":
        own = own + (t_k - t_q)
    key = torch.arange(t_k, device=q.device)[None, :]
    left, right = request.window or (-1, -1)
    hidden = torch.zeros((t_q, t_k), dtype=torch.bool, device=q.device)
    if request.causal or right >= 0:
        hidden |= key > own + (0 if request.causal else right)
    if left >= 0:
        hidden |= key < own - left
    if "mask" in tensors:
        hidden = hidden | ~tensors["mask"]
    scores = scores.masked_fill(hidden, -math.inf)
    logits = scores
    if "sinks" in tensors:
        sinks = tensors["sinks"].double()[None, :, None, None].expand(*scores.shape[:-1], 1)
        logits = torch.cat([scores, sinks], -1)
    lse = torch.logsumexp(logits, -1)
    weights = torch.exp(scores - torch.where(lse.isinf(), 0.0, lse)[..., None])
    return weights @ v, lse


@pytest.fixture
def attend(torch, load, record):
    """Run a kernel on normal values, hold it against float64 and note its errors."""

    def attend(t_q, t_k, heads=(4, 2), **options):
        kernel = lg.attention(design="fast", **options)
        request, batch = kernel.request, 2

        def normal(*shape):
            return torch.randn(shape, device="cuda", dtype=torch.float16)

        tensors = {
            "q": normal(batch, t_q, heads[0], request.head_dim).transpose(1, 2),
            "k": normal(batch, heads[1], t_k, request.head_dim),
            "v": normal(batch, heads[1], t_k, request.value_dim),
        }
        if request.bias:
            tensors["bias"] = normal(1, heads[0], t_q, t_k).expand(batch, heads[0], t_q, t_k)
        if request.mask:
            mask = torch.rand((batch, 1, t_q, t_k), device="cuda") > 0.5
            mask[:, :, 0] = False  # a query that sees nothing
            tensors["mask"] = mask.expand(-1, heads[0], -1, -1)
        if request.sinks:
            tensors["sinks"] = torch.randn(heads[0], device="cuda")
        out = torch.full((batch, heads[0], t_q, request.value_dim), math.nan, device="cuda")
        out = out.to(getattr(torch, request.o_dtype))
        lse = torch.full(out.shape[:-1], math.nan, device="cuda")
        load(kernel).attention(**tensors, out=out, lse=lse)
        want, want_lse = attention_reference(torch, request, tensors, request.head_dim**-0.5)
        assert ((want_lse == -math.inf) == (lse == -math.inf)).all()
        assert not out.isnan().any()
        seen = want_lse > -math.inf
        # Where a query sees few keys the output is as large as V, and rounds accordingly.
        error = ((out.double() - want).abs() / want.abs().clamp(min=1)).max().item()
        lse_error = torch.where(seen, (lse.double() - want_lse).abs(), 0.0).max().item()
        asked = " ".join(f"{name}={value}" for name, value in options.items() if name != "head_dim")
        record(
            f"attention fast D={request.head_dim} {t_q}x{t_k} H={heads[0]}/{heads[1]} {asked}".rstrip(),
            f"max error / max(1, value) {error:.2e}, LSE {lse_error:.2e}",
            f"{OUTPUT_BOUND:g}, {LSE_BOUND:g}",
        )
        assert error < OUTPUT_BOUND
        assert lse_error < LSE_BOUND

    return attend


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_head_dim(attend, head_dim):
    attend(333, 517, head_dim=head_dim, causal=True, **BOTTOM_RIGHT)


@pytest.mark.parametrize(
    ("head_dim", "options"),
    [
        (64, {"v_head_dim": 128}),
        (192, {"v_head_dim": 128, "causal": True}),
        (512, {"causal": True}),
        (576, {"v_head_dim": 512}),
        (256, {"bias": True, "mask": True}),
    ],
)
def test_wide_head_dims_and_those_of_v(attend, head_dim, options):
    attend(333, 517, head_dim=head_dim, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"causal": True},
        {"causal": True, **BOTTOM_RIGHT},
        {"window": (100, 30)},
        {"window": (64, -1), **BOTTOM_RIGHT},
        {"softcap": 3.0},
        {"sinks": True},
        {"mask": True},
        {"out_dtype": "float32"},
        {"causal": True, "bias": True, "softcap": 5.0, "sinks": True, "out_dtype": "float32"},
    ],
    ids=lambda options: "-".join(options),
)
@pytest.mark.parametrize(("t_q", "t_k"), [(777, 777), (130, 1000), (1000, 130), (1, 300), (300, 1)])
def test_every_feature(attend, t_q, t_k, options):
    attend(t_q, t_k, head_dim=96, **options)


def workspace(torch, module, tensors):
    """Allocate what a file asks for beside the arrays of a call."""
    if not hasattr(module, "workspace"):
        return {}
    wanted = module.workspace(tensors["a"], tensors["b"])
    return {
        name: torch.empty(shape, dtype=getattr(torch, dtype), device="cuda") for name, (shape, dtype) in wanted.items()
    }


@pytest.mark.parametrize(
    "options",
    [
        {"scale": True, "bias": True, "epilogue": "silu"},
        {"epilogue": "gelu", "rounded": True, "bias": True},
        {"residual": True, "epilogue": "relu"},
        {"accumulate": "tile"},
        {"group_m": 4},
        {"a_order": "km", "b_order": "nk"},
        {"a_order": "km", "b_order": "kn"},
        {"split_k": 3, "bias": True, "epilogue": "silu"},
        {"operand_dtype": "float32", "accumulate": "tile"},
        {"operand_dtype": "float32", "split_k": 2, "b_order": "nk"},
        {"split_k": 5, "scale": True, "bias": True, "epilogue": "gelu", "residual": True, "a_order": "km"},
        {"operand_dtype": "float32", "a_order": "km", "b_order": "nk", "accumulate": "tile", "split_k": 2},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()),
)
def test_matmul(torch, load, record, options):
    """Small integers, so that only the epilogue and the output round."""
    batch, m, n, k = 2, 333, 257, 515
    request = lg.matmul(design="fast", out_dtype="float32", **options).request
    module = load(lg.matmul(design="fast", out_dtype="float32", **options))
    dtype = getattr(torch, request.given_dtype)
    a, b = (torch.randint(-4, 5, shape, device="cuda").to(dtype) for shape in ((batch, m, k), (batch, k, n)))
    tensors = {
        "a": a if request.a_order == "mk" else a.transpose(1, 2).contiguous(),
        "b": b if request.b_order == "kn" else b.transpose(1, 2).contiguous(),
        "c": torch.full((batch, m, n), math.nan, device="cuda"),
    }
    x = a.double() @ b.double()
    scalars = {"alpha": 0.01, "beta": 0.5} if request.scale and request.bias else {}
    x = x * scalars.get("alpha", 1.0)
    if request.bias:
        tensors["bias"] = torch.randn((1, 1, n), device="cuda", dtype=torch.float16)
        x = x + scalars.get("beta", 1.0) * tensors["bias"].double()
    functions = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu}
    x = functions.get(request.epilogue, lambda x: x)(x)
    if request.residual:
        tensors["residual"] = torch.randn((batch, m, n), device="cuda")
        x = x + tensors["residual"].double()
    module.matmul(**tensors, **workspace(torch, module, tensors), **scalars)
    error = ((tensors["c"].double() - x).abs().max() / x.abs().max()).item()
    asked = " ".join(f"{name}={value}" for name, value in options.items())
    record(f"matmul fast {asked}, {batch}x{m}x{n}x{k}, integers", f"max error / max {error:.2e}", "1e-06")
    assert error <= 1e-6


@pytest.mark.parametrize(("a_order", "b_order"), [("mk", "kn"), ("km", "nk")])
def test_fp32_operands(torch, load, record, a_order, b_order):
    """Rows and columns of any magnitude, relative to |A| |B|; and twice the same bits."""
    options = {"a_order": a_order, "b_order": b_order, "accumulate": "tile"}
    module = load(lg.matmul(design="fast", operand_dtype="float32", **options))
    m, n, k = 333, 257, 1030
    a, b = torch.randn((m, k), device="cuda"), torch.randn((k, n), device="cuda")
    a *= torch.exp2(torch.randint(-40, 40, (m, 1), device="cuda"))
    b *= torch.exp2(torch.randint(-40, 40, (1, n), device="cuda"))
    tensors = {
        "a": a if a_order == "mk" else a.T.contiguous(),
        "b": b if b_order == "kn" else b.T.contiguous(),
        "c": torch.full((m, n), math.nan, device="cuda"),
    }
    module.matmul(**tensors, **workspace(torch, module, tensors))
    share = (
        ((tensors["c"].double() - a.double() @ b.double()).abs() / (a.abs().double() @ b.abs().double())).max().item()
    )
    record(f"matmul fast float32 {a_order} {b_order}, {m}x{n}x{k}", f"max error / |A| |B| {share:.2e}", "2^-18")
    assert share <= 2.0**-18
    again = torch.full_like(tensors["c"], math.nan)
    module.matmul(**{**tensors, "c": again}, **workspace(torch, module, tensors))
    assert torch.equal(again, tensors["c"])


@pytest.mark.parametrize("a_order", ["mk", "km"])
def test_offsets_beyond_32_bits(torch, load, record, a_order):
    """Rows 2^27 elements apart: from row 16 on an offset does not fit 32 bits. Needs 18 GB on the card."""
    module = load(lg.matmul(design="fast", a_order=a_order))
    rows, stride = 66, 2**27
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        record("matmul fast, offsets beyond 2^31", "not run: the card has too little memory", "exact")
        return
    far = torch.empty_strided((rows, 40), (stride, 1), device="cuda", dtype=torch.float16)
    far.copy_(torch.randint(-4, 5, (rows, 40), device="cuda"))
    b = torch.randint(-4, 5, (40 if a_order == "mk" else rows, 16), device="cuda").half()
    a = far.double() if a_order == "mk" else far.double().T
    c = torch.empty((a.shape[0], 16), device="cuda", dtype=torch.float16)
    module.matmul(far, b, c)
    assert (c.double() == a @ b.double()).all()
    record(f"matmul fast {a_order}, offsets beyond 2^31", "exact", "exact")
