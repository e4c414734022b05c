"""The kernel behind slim_attention.ptx: attention with head dim 16 for the tests of the executor.

One head; 32 query rows a block in two warps, 16 keys a step. Small, but with everything that the real kernels have:
masked vector loads, staging through shared memory with barriers, m8n8k4 in inline assembly, reductions by shuffles,
a loop, fp16 and fp32 outputs. The PTX was compiled for sm_70 with Triton 3.9.0 (arguments: fp16 pointers, an fp32
pointer, fp32, i32...; strides divisible by 16); paths and debugging sections are removed from it.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

ACC: gl.constexpr = gl.DistributedLinearLayout(
    reg_bases=[[0, 0, 0, 0, 0, 0, 1], [0, 0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0]],
    lane_bases=[
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 2],
        [0, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 0],
        [0, 0, 4, 0, 0, 0, 0],
    ],
    warp_bases=[[1, 0, 0, 0, 0, 0, 0]],
    block_bases=[],
    shape=[2, 2, 8, 1, 2, 2, 4],
)
ACC2: gl.constexpr = gl.DistributedLinearLayout(
    reg_bases=[[0, 1], [2, 0], [0, 4]],
    lane_bases=[[1, 0], [0, 2], [8, 0], [0, 8], [4, 0]],
    warp_bases=[[16, 0]],
    block_bases=[],
    shape=[32, 16],
)
FRAGMENT_A: gl.constexpr = gl.DistributedLinearLayout(
    reg_bases=[[0, 1], [0, 2], [0, 0]],
    lane_bases=[[1, 0], [2, 0], [8, 0], [0, 0], [4, 0]],
    warp_bases=[[16, 0]],
    block_bases=[],
    shape=[32, 4],
)
FRAGMENT_B: gl.constexpr = gl.DistributedLinearLayout(
    reg_bases=[[0, 1], [0, 2], [0, 0]],
    lane_bases=[[1, 0], [2, 0], [0, 0], [8, 0], [4, 0]],
    warp_bases=[[0, 0]],
    block_bases=[],
    shape=[16, 4],
)
Q_LOAD: gl.constexpr = gl.BlockedLayout([1, 8], [16, 2], [2, 1], [1, 0])
K_LOAD: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [2, 1], [1, 0])
V_LOAD: gl.constexpr = gl.BlockedLayout([4, 1], [4, 8], [1, 2], [1, 0])
SHARED: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])


@gluon.jit
def mma(acc, a, b):
    return gl.inline_asm_elementwise(
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {$0,$1,$2,$3,$4,$5,$6,$7}, {$8,$9}, {$12,$13}, "
        "{$16,$17,$18,$19,$20,$21,$22,$23};",
        "=f,=f,=f,=f,=f,=f,=f,=f,r,r,r,r,r,r,r,r,0,1,2,3,4,5,6,7",
        [a, b, acc],
        dtype=gl.float32,
        is_pure=True,
        pack=8,
    )


@gluon.jit
def as_a(a):
    a = a.reshape([2, 2, 2, 2, 2, 2, 2]).permute([0, 1, 2, 5, 4, 3, 6]).reshape([2, 2, 8, 1, 1, 1, 4])
    return gl.convert_layout(a, ACC, assert_trivial=True)


@gluon.jit
def as_b(b):
    b = b.reshape([1, 2, 2, 2, 2, 2, 2]).permute([2, 5, 4, 0, 1, 3, 6]).reshape([1, 1, 8, 1, 2, 1, 4])
    return gl.convert_layout(b, ACC, assert_trivial=True)


@gluon.jit
def slim_attention(q, k, v, o, lse, scale, stride_q, stride_k, stride_v, stride_o, rows, keys):
    first = gl.program_id(0) * 32
    qr = first + gl.arange(0, 32, layout=gl.SliceLayout(1, Q_LOAD))
    qc = gl.arange(0, 16, layout=gl.SliceLayout(0, Q_LOAD))
    qt = gl.load(q + qr[:, None] * stride_q + qc[None, :], mask=qr[:, None] < rows, other=0.0)
    q_s = gl.allocate_shared_memory(gl.float16, [128, 4], SHARED)
    k_s = gl.allocate_shared_memory(gl.float16, [64, 4], SHARED)
    v_s = gl.allocate_shared_memory(gl.float16, [64, 4], SHARED)
    p_s = gl.allocate_shared_memory(gl.float16, [128, 4], SHARED)
    q_s.store(qt.reshape([32, 4, 4]).permute([1, 0, 2]).reshape([128, 4]))
    acc = gl.zeros([2, 2, 8, 1, 2, 2, 4], gl.float32, layout=ACC)
    row_max = gl.full([32], -float("inf"), gl.float32, layout=gl.SliceLayout(1, ACC2))
    row_sum = gl.full([32], 0.0, gl.float32, layout=gl.SliceLayout(1, ACC2))
    kr = gl.arange(0, 16, layout=gl.SliceLayout(1, K_LOAD))
    kc = gl.arange(0, 16, layout=gl.SliceLayout(0, K_LOAD))
    vr = gl.arange(0, 16, layout=gl.SliceLayout(1, V_LOAD))
    vc = gl.arange(0, 16, layout=gl.SliceLayout(0, V_LOAD))
    n = gl.arange(0, 16, layout=gl.SliceLayout(0, ACC2))
    for n0 in range(0, keys, 16):
        kt = gl.load(k + (n0 + kr)[:, None] * stride_k + kc[None, :], mask=(n0 + kr)[:, None] < keys, other=0.0)
        vt = gl.load(v + (n0 + vr)[:, None] * stride_v + vc[None, :], mask=(n0 + vr)[:, None] < keys, other=0.0)
        gl.barrier()
        k_s.store(kt.reshape([16, 4, 4]).permute([1, 0, 2]).reshape([64, 4]))
        v_s.store(vt.reshape([4, 4, 16]).permute([0, 2, 1]).reshape([64, 4]))
        s = gl.zeros([2, 2, 8, 1, 2, 2, 4], gl.float32, layout=ACC)
        for ks in gl.static_range(4):
            s = mma(
                s,
                as_a(q_s.slice(ks * 32, 32).load(FRAGMENT_A)),
                as_b(k_s.slice(ks * 16, 16).load(FRAGMENT_B)),
            )
        s2 = gl.convert_layout(s.reshape([32, 16]), ACC2, assert_trivial=True) * scale
        s2 = gl.where((n0 + n)[None, :] < keys, s2, -float("inf"))
        new_max = gl.maximum(row_max, gl.max(s2, axis=1))
        alpha = gl.exp2(row_max - new_max)
        p = gl.exp2(s2 - new_max[:, None])
        row_sum = row_sum * alpha + gl.sum(p, axis=1)
        row_max = new_max
        p_s.store(p.to(gl.float16).reshape([32, 4, 4]).permute([1, 0, 2]).reshape([128, 4]))
        o2 = gl.convert_layout(acc.reshape([32, 16]), ACC2, assert_trivial=True) * alpha[:, None]
        acc = gl.convert_layout(o2.reshape([2, 2, 8, 1, 2, 2, 4]), ACC, assert_trivial=True)
        for ks in gl.static_range(4):
            acc = mma(
                acc,
                as_a(p_s.slice(ks * 32, 32).load(FRAGMENT_A)),
                as_b(v_s.slice(ks * 16, 16).load(FRAGMENT_B)),
            )
    o2 = gl.convert_layout(acc.reshape([32, 16]), ACC2, assert_trivial=True) / row_sum[:, None]
    orow = first + gl.arange(0, 32, layout=gl.SliceLayout(1, ACC2))
    ocol = gl.arange(0, 16, layout=gl.SliceLayout(0, ACC2))
    gl.store(o + orow[:, None] * stride_o + ocol[None, :], o2.to(gl.float16), mask=orow[:, None] < rows)
    gl.store(lse + orow, (row_max + gl.log2(row_sum)) * 0.6931471805599453, mask=orow < rows)
