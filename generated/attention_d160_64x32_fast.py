"""Flash attention, forward: head dim 160 as 128 + 32, tiles of 64 queries x 32 keys.

Tensor-core products of 8x8x4 (SM70_8x8x4_F32F16F16F32_TN), 4 warps of whole rows; softmax in fp32,
no bias, grouped query heads, any strides and lengths.

Emitted by layoutgen 0.1.0 from template attention_fast.py.jinja (67ce5fcc826a).
Do not edit; regenerate it with

    layoutgen emit attention --design fast --head-dim 160 --split 128,32 --block-m 64 --block-n 32 --atom m8n8k4
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# What was asked for, how it is compiled, and the types of the kernel's parameters as they come from contiguous arrays.
# Fusion of multiplications and additions is chosen here because Triton's own default differs between versions.
REQUEST = {
    "kernel": "attention",
    "design": "fast",
    "head_dim": 160,
    "atom": "SM70_8x8x4_F32F16F16F32_TN",
    "block_m": 64,
    "block_n": 32,
    "split": [128, 32],
    "bias": False,
    "arrangement": "m2,n2",
    "warps": "2x2",
}
OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}
KERNEL = "attention_kernel"
SIGNATURE = {
    "q": "*fp16",
    "k": "*fp16",
    "v": "*fp16",
    "out": "*fp16",
    "lse": "*fp32",
    "scale": "fp32",
    "stride_qb": "i32",
    "stride_qh": "i32",
    "stride_qt": "i32",
    "stride_qd": "i32",
    "stride_kb": "i32",
    "stride_kh": "i32",
    "stride_kt": "i32",
    "stride_kd": "i32",
    "stride_vb": "i32",
    "stride_vh": "i32",
    "stride_vt": "i32",
    "stride_vd": "i32",
    "stride_ob": "i32",
    "stride_oh": "i32",
    "stride_ot": "i32",
    "stride_od": "i32",
    "stride_lb": "i32",
    "stride_lh": "i32",
    "stride_lt": "i32",
    "group": "i32",
    "t_q": "i32",
    "t_k": "i32",
    "wide": "constexpr",
}

LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)

# Bits: lane = a0 + 2 a1 + 4 q0 + 8 q1 + 16 b; a thread's element of an accumulator or fragment = v0 + 2 v1 + 4 v2;
# mb and nb are a unit's row and column in the block. `v0: n0` says that hardware bit v0 moves bit 0 of n;
# `free` that the layout is replicated over that bit.


# S = Q K^T as a matrix: who holds which score.
MATRIX_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [0, 8],  # v2: n3
            [0, 16],  # nb0: n4
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [4, 0],  # q0: m2
            [0, 4],  # q1: n2
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 0],  # cw0: free
        ],
        block_bases=[],
        shape=[64, 32],
    )
)


# S as each of 2 warps sums it over its columns of Q and K: one matrix below the other.
PARTIAL_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [0, 8],  # v2: n3
            [0, 16],  # nb0: n4
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [4, 0],  # q0: m2
            [0, 4],  # q1: n2
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [64, 0],  # cw0: m6
        ],
        block_bases=[],
        shape=[128, 32],
    )
)


# The half of S with its low columns.
HALF_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [0, 8],  # v2: n3
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [4, 0],  # q0: m2
            [0, 4],  # q1: n2
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 0],  # cw0: free
        ],
        block_bases=[],
        shape=[64, 16],
    )
)


# PARTIAL_S, cut into dims along which each operand is a broadcast.
ACCUMULATOR_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 0, 0, 1],  # v0: n0
            [0, 0, 0, 0, 2, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 0, 1, 0, 0],  # v2: n3
            [0, 0, 0, 0, 0, 1, 0, 0, 0],  # nb0: n4
            [0, 2, 0, 0, 0, 0, 0, 0, 0],  # mb1: m5
        ],
        lane_bases=[
            [0, 0, 0, 0, 1, 0, 0, 0, 0],  # a0: m0
            [0, 0, 0, 0, 0, 0, 0, 0, 2],  # a1: n1
            [0, 0, 0, 1, 0, 0, 0, 0, 0],  # q0: m2
            [0, 0, 0, 0, 0, 0, 0, 1, 0],  # q1: n2
            [0, 0, 1, 0, 0, 0, 0, 0, 0],  # b: m3
        ],
        warp_bases=[
            [0, 1, 0, 0, 0, 0, 0, 0, 0],  # mb0: m4
            [1, 0, 0, 0, 0, 0, 0, 0, 0],  # cw0: m6
        ],
        block_bases=[],
        shape=[2, 4, 2, 2, 4, 2, 2, 2, 4],
    )
)


# 16 columns of Q at once, [m, k].
FRAGMENT_Q = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [32, 0],  # mb1: m5
            [0, 4],  # step0: k2
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [2, 0],  # a1: m1
            [4, 0],  # q0: m2
            [0, 0],  # q1: free
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 8],  # cw0: k3
        ],
        block_bases=[],
        shape=[64, 16],
    )
)


# 16 columns of K at once, [n, k].
FRAGMENT_K = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [16, 0],  # nb0: n4
            [0, 4],  # step0: k2
        ],
        lane_bases=[
            [1, 0],  # a0: n0
            [2, 0],  # a1: n1
            [0, 0],  # q0: free
            [4, 0],  # q1: n2
            [8, 0],  # b: n3
        ],
        warp_bases=[
            [0, 0],  # mb0: free
            [0, 8],  # cw0: k3
        ],
        block_bases=[],
        shape=[32, 16],
    )
)


# 8 keys of P after the exchange: rows where O's left operand wants them.
WEIGHTS = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [0, 2],  # v1: n1
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [2, 0],  # a1: m1
            [4, 0],  # q0: m2
            [0, 4],  # q1: n2
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 0],  # cw0: free
        ],
        block_bases=[],
        shape=[64, 8],
    )
)


# 8 keys of S.
GROUP_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [4, 0],  # q0: m2
            [0, 4],  # q1: n2
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 0],  # cw0: free
        ],
        block_bases=[],
        shape=[64, 8],
    )
)


# The sums of a thread's own weights: rows, and lanes of a row.
SUMS = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [2, 0],  # v1: m1
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 1],  # a1: l0
            [4, 0],  # q0: m2
            [0, 2],  # q1: l1
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 0],  # cw0: free
        ],
        block_bases=[],
        shape=[64, 4],
    )
)


# 128 columns of O as a matrix.
MATRIX_O128 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: d0
            [2, 0],  # v1: m1
            [0, 8],  # v2: d3
            [0, 4],  # nb0: d2
            [0, 32],  # nb1: d5
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: d1
            [4, 0],  # q0: m2
            [0, 16],  # q1: d4
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 64],  # cw0: d6
        ],
        block_bases=[],
        shape=[64, 128],
    )
)


# MATRIX_O128, cut into dims along which each operand is a broadcast.
ACCUMULATOR_O128 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 0, 0, 1],  # v0: d0
            [0, 0, 0, 2, 0, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 0, 1, 0, 0],  # v2: d3
            [0, 0, 0, 0, 0, 0, 0, 1, 0],  # nb0: d2
            [0, 0, 0, 0, 1, 0, 0, 0, 0],  # nb1: d5
            [2, 0, 0, 0, 0, 0, 0, 0, 0],  # mb1: m5
        ],
        lane_bases=[
            [0, 0, 0, 1, 0, 0, 0, 0, 0],  # a0: m0
            [0, 0, 0, 0, 0, 0, 0, 0, 2],  # a1: d1
            [0, 0, 1, 0, 0, 0, 0, 0, 0],  # q0: m2
            [0, 0, 0, 0, 0, 1, 0, 0, 0],  # q1: d4
            [0, 1, 0, 0, 0, 0, 0, 0, 0],  # b: m3
        ],
        warp_bases=[
            [1, 0, 0, 0, 0, 0, 0, 0, 0],  # mb0: m4
            [0, 0, 0, 0, 2, 0, 0, 0, 0],  # cw0: d6
        ],
        block_bases=[],
        shape=[4, 2, 2, 4, 4, 2, 2, 2, 4],
    )
)


# 4 keys of V at once, [k, d].
FRAGMENT_V128 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: d0
            [0, 2],  # v1: d1
            [0, 0],  # v2: free
            [0, 4],  # nb0: d2
            [0, 32],  # nb1: d5
            [0, 0],  # mb1: free
        ],
        lane_bases=[
            [1, 0],  # a0: k0
            [2, 0],  # a1: k1
            [0, 0],  # q0: free
            [0, 16],  # q1: d4
            [0, 8],  # b: d3
        ],
        warp_bases=[
            [0, 0],  # mb0: free
            [0, 64],  # cw0: d6
        ],
        block_bases=[],
        shape=[4, 128],
    )
)


# 32 columns of O as a matrix.
MATRIX_O32 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: d0
            [2, 0],  # v1: m1
            [0, 4],  # v2: d2
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: d1
            [4, 0],  # q0: m2
            [0, 8],  # q1: d3
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 16],  # cw0: d4
        ],
        block_bases=[],
        shape=[64, 32],
    )
)


# MATRIX_O32, cut into dims along which each operand is a broadcast.
ACCUMULATOR_O32 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 0, 1],  # v0: d0
            [0, 0, 0, 2, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 0, 1, 0],  # v2: d2
            [2, 0, 0, 0, 0, 0, 0, 0],  # mb1: m5
        ],
        lane_bases=[
            [0, 0, 0, 1, 0, 0, 0, 0],  # a0: m0
            [0, 0, 0, 0, 0, 0, 0, 2],  # a1: d1
            [0, 0, 1, 0, 0, 0, 0, 0],  # q0: m2
            [0, 0, 0, 0, 0, 1, 0, 0],  # q1: d3
            [0, 1, 0, 0, 0, 0, 0, 0],  # b: m3
        ],
        warp_bases=[
            [1, 0, 0, 0, 0, 0, 0, 0],  # mb0: m4
            [0, 0, 0, 0, 1, 0, 0, 0],  # cw0: d4
        ],
        block_bases=[],
        shape=[4, 2, 2, 4, 2, 2, 2, 4],
    )
)


# 4 keys of V at once, [k, d].
FRAGMENT_V32 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: d0
            [0, 2],  # v1: d1
            [0, 0],  # v2: free
            [0, 0],  # mb1: free
        ],
        lane_bases=[
            [1, 0],  # a0: k0
            [2, 0],  # a1: k1
            [0, 0],  # q0: free
            [0, 8],  # q1: d3
            [0, 4],  # b: d2
        ],
        warp_bases=[
            [0, 0],  # mb0: free
            [0, 16],  # cw0: d4
        ],
        block_bases=[],
        shape=[4, 32],
    )
)


# Tiles on their way from global to shared memory, and their buffers there: a row's 16 bytes stay together.
# Q, columns 0 to 127: a warp stores 8 x 128 bits in 32 wavefronts (32 at least), a step fetches 2 x 128 in 8 (8).
TILE_Q0 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [32, 0], [0, 32], [0, 64]],
        lane_bases=[[1, 0], [2, 0], [4, 0], [0, 8], [0, 16]],
        warp_bases=[[8, 0], [16, 0]],
        block_bases=[],
        shape=[64, 128],
    )
)
BUFFER_Q0 = gl.constexpr(
    gl.SharedLinearLayout(
        [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [0, 8], [0, 16], [0, 32], [0, 64], [8, 0], [16, 0], [32, 0]]
    )
)
# K, columns 0 to 127: a warp stores 4 x 128 bits in 16 wavefronts (16 at least), a step fetches 2 x 128 in 8 (8).
TILE_K0 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [0, 32], [0, 64]],
        lane_bases=[[1, 0], [2, 0], [0, 8], [0, 16], [4, 0]],
        warp_bases=[[8, 0], [16, 0]],
        block_bases=[],
        shape=[32, 128],
    )
)
BUFFER_K0 = gl.constexpr(
    gl.SharedLinearLayout(
        [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [0, 8], [0, 16], [0, 32], [0, 64], [4, 0], [8, 0], [16, 0]]
    )
)
# Q, columns 128 to 159: a warp stores 2 x 128 bits in 8 wavefronts (8 at least), a step fetches 2 x 128 in 8 (8).
TILE_Q1 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [32, 0]],
        lane_bases=[[1, 0], [2, 0], [4, 0], [0, 8], [0, 16]],
        warp_bases=[[8, 0], [16, 0]],
        block_bases=[],
        shape=[64, 32],
    )
)
BUFFER_Q1 = gl.constexpr(
    gl.SharedLinearLayout([[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [0, 8], [0, 16], [8, 0], [16, 0], [32, 0]])
)
# K, columns 128 to 159: a warp stores 1 x 128 bits in 4 wavefronts (4 at least), a step fetches 2 x 128 in 8 (8).
TILE_K1 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4]],
        lane_bases=[[1, 0], [2, 0], [0, 8], [0, 16], [4, 0]],
        warp_bases=[[8, 0], [16, 0]],
        block_bases=[],
        shape=[32, 32],
    )
)
BUFFER_K1 = gl.constexpr(
    gl.SharedLinearLayout([[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [0, 8], [0, 16], [4, 0], [8, 0], [16, 0]])
)
# V, columns 0 to 127: a warp stores 4 x 128 bits in 16 wavefronts (16 at least), a step fetches 2 x 128 in 8 (8).
TILE_V0 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [0, 32], [0, 64]],
        lane_bases=[[1, 0], [2, 0], [0, 8], [0, 16], [4, 0]],
        warp_bases=[[8, 0], [16, 0]],
        block_bases=[],
        shape=[32, 128],
    )
)
BUFFER_V0 = gl.constexpr(
    gl.SharedLinearLayout(
        [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [0, 8], [0, 16], [0, 32], [0, 64], [4, 0], [8, 0], [16, 0]]
    )
)
# V, columns 128 to 159: a warp stores 1 x 128 bits in 4 wavefronts (4 at least), a step fetches 1 x 64 in 2 (2).
TILE_V1 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4]],
        lane_bases=[[1, 0], [2, 0], [0, 8], [0, 16], [4, 0]],
        warp_bases=[[8, 0], [16, 0]],
        block_bases=[],
        shape=[32, 32],
    )
)
BUFFER_V1 = gl.constexpr(
    gl.SharedLinearLayout([[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [0, 8], [0, 16], [4, 0], [8, 0], [16, 0]])
)
# The partial sums of S, a half: a warp stores 4 x 128 bits in 16 wavefronts (16 at least),
# and fetches those of each warp in 16 (16).
BUFFER_S_LOW = gl.constexpr(
    gl.SharedLinearLayout([[0, 1], [2, 0], [1, 0], [0, 2], [4, 0], [0, 4], [8, 0], [0, 8], [32, 0], [16, 0], [64, 0]])
)
BUFFER_S_HIGH = gl.constexpr(
    gl.SharedLinearLayout([[0, 1], [2, 0], [1, 0], [0, 2], [4, 0], [0, 4], [8, 0], [0, 8], [32, 0], [16, 0], [64, 0]])
)
# Triton 3.8 calls it _reinterpret: the same shared memory, taken for a tile of another shape and dtype.
PUBLIC_REINTERPRET = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))


@gluon.jit
def mma_s(accumulator, a, b):
    """accumulator += a @ b for one k-step; register r of all three goes to the instruction together.

    A call takes 8 accumulators of a thread; an operand arrives as 4 registers, the first 2 holding its 4 elements.
    Along dims of size 1 an operand is broadcast to the accumulator's shape, which copies nothing.
    """
    return gl.inline_asm_elementwise(
        asm="mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 "
        "{$0, $1, $2, $3, $4, $5, $6, $7}, {$8, $9}, {$12, $13}, {$0, $1, $2, $3, $4, $5, $6, $7};",
        constraints="=f,=f,=f,=f,=f,=f,=f,=f,r,r,r,r,r,r,r,r,0,1,2,3,4,5,6,7",
        args=[a, b, accumulator],
        dtype=gl.float32,
        is_pure=True,
        pack=8,
    )


@gluon.jit
def mma_o(accumulator, a, b):
    """accumulator += a @ b for one k-step; register r of all three goes to the instruction together.

    A call takes 8 accumulators of a thread; an operand arrives as 4 registers, the first 2 holding its 4 elements.
    Along dims of size 1 an operand is broadcast to the accumulator's shape, which copies nothing.
    """
    return gl.inline_asm_elementwise(
        asm="mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 "
        "{$0, $1, $2, $3, $4, $5, $6, $7}, {$8, $9}, {$12, $13}, {$0, $1, $2, $3, $4, $5, $6, $7};",
        constraints="=f,=f,=f,=f,=f,=f,=f,=f,r,r,r,r,r,r,r,r,0,1,2,3,4,5,6,7",
        args=[a, b, accumulator],
        dtype=gl.float32,
        is_pure=True,
        pack=8,
    )


@gluon.jit
def operand_q(fragment):
    """A k-step of Q as a broadcast operand: it already lies where it is needed. Moves no data."""
    fragment = fragment.reshape([16, 2, 2, 2, 2, 2])
    fragment = fragment.permute([3, 0, 4, 2, 1, 5])
    fragment = fragment.reshape([2, 4, 2, 2, 4, 1, 1, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_S, assert_trivial=True)


@gluon.jit
def operand_k(fragment):
    """A k-step of K as a broadcast operand: it already lies where it is needed. Moves no data."""
    fragment = fragment.reshape([2, 2, 4, 2, 2, 2, 2])
    fragment = fragment.permute([4, 1, 5, 3, 0, 2, 6])
    fragment = fragment.reshape([2, 1, 2, 1, 4, 2, 1, 2, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_S, assert_trivial=True)


@gluon.jit
def operand_p128(fragment):
    """A step's weights, told apart by q1, as a broadcast operand: it already lies where it is needed. Moves no data."""
    fragment = fragment.reshape([16, 2, 4, 2, 2])
    fragment = fragment.permute([0, 3, 2, 1, 4])
    fragment = fragment.reshape([4, 2, 2, 4, 1, 2, 1, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O128, assert_trivial=True)


@gluon.jit
def operand_v128(fragment):
    """4 keys of V as a broadcast operand: it already lies where it is needed. Moves no data."""
    fragment = fragment.permute([1, 0]).reshape([8, 2, 2, 2, 2, 2, 2])
    fragment = fragment.permute([1, 3, 6, 0, 2, 5, 4])
    fragment = fragment.reshape([1, 2, 1, 4, 4, 2, 1, 2, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O128, assert_trivial=True)


@gluon.jit
def operand_p32(fragment):
    """A step's weights, told apart by q1, as a broadcast operand: it already lies where it is needed. Moves no data."""
    fragment = fragment.reshape([16, 2, 4, 2, 2])
    fragment = fragment.permute([0, 3, 2, 1, 4])
    fragment = fragment.reshape([4, 2, 2, 4, 1, 2, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O32, assert_trivial=True)


@gluon.jit
def operand_v32(fragment):
    """4 keys of V as a broadcast operand: it already lies where it is needed. Moves no data."""
    fragment = fragment.permute([1, 0]).reshape([4, 4, 2, 2, 2])
    fragment = fragment.permute([1, 4, 0, 3, 2])
    fragment = fragment.reshape([1, 2, 1, 4, 2, 2, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O32, assert_trivial=True)


@gluon.jit
def halves(tile, rows: gl.constexpr, columns: gl.constexpr):
    """Split a tile in the middle of its columns. Both halves lie in every thread: moves no data."""
    return gl.split(tile.reshape([rows, 2, columns // 2]).permute([0, 2, 1]))


@gluon.jit
def steps_of(tile, rows: gl.constexpr):
    """Split what is fetched of Q or K into two k-steps of each of 2 warps. Moves no data."""
    return gl.split(tile.reshape([rows, 2, 2, 4]).permute([0, 1, 3, 2]))


@gluon.jit
def exchange(weights):
    """8 keys of P as a left operand: lane bit a1 trades places with register bit v1."""
    return gl.convert_layout(weights, WEIGHTS)


@gluon.jit
def partner(weights):
    """What the lane across bit q1 holds: the other half of the keys of every 8."""
    return gl.inline_asm_elementwise(
        asm="shfl.sync.bfly.b32 $0, $1, 8, 0x1f, 0xffffffff;",
        constraints="=r,r",
        args=[weights],
        dtype=gl.float16,
        is_pure=True,
        pack=2,
    )


@gluon.jit
def sums(weights):
    """The sums of each thread's own weights of 8 keys: what is left for the lanes of a row to add up."""
    weights = weights.reshape([512]).permute([0]).reshape([64, 4, 2])
    return gl.convert_layout(gl.sum(weights, axis=2), SUMS, assert_trivial=True)


@gluon.jit
def rounded(weights):
    """Weights times 2^-101 as float16 times 2^11: their exponents already are those of float16.

    Times 8 shifts the bits that a half has to the upper half of a register, and 0x8000 is half an ulp there: ties round
    up. 0x7632 picks the upper halves of two registers. No conversion unit is needed.
    """
    return gl.inline_asm_elementwise(
        asm="{ .reg .b32 low, high; mad.lo.u32 low, $1, 8, 0x8000; mad.lo.u32 high, $2, 8, 0x8000; "
        "prmt.b32 $0, low, high, 0x7632; }",
        constraints="=r,r,r",
        args=[weights.to(gl.int32, bitcast=True)],
        dtype=gl.float16,
        is_pure=True,
        pack=2,
    )


@gluon.jit
def load_tile(
    pointer,
    stride_row,
    stride_column,
    first,
    rows,
    count: gl.constexpr,
    start: gl.constexpr,
    stop: gl.constexpr,
    layout: gl.constexpr,
    masked: gl.constexpr,
    wide: gl.constexpr,
):
    """Load `count` rows from row `first` on, columns `start` to `stop`.

    If masked, `rows` are left, and others are zero.
    """
    row = gl.arange(0, count, layout=gl.SliceLayout(1, layout))[:, None]
    column = start + gl.arange(0, stop - start, layout=gl.SliceLayout(0, layout))[None, :]
    return load_rows(pointer, stride_row, stride_column, first, rows, row, column, stop, masked, wide)


@gluon.jit
def load_turned(
    pointer,
    stride_row,
    stride_column,
    first,
    rows,
    count: gl.constexpr,
    start: gl.constexpr,
    stop: gl.constexpr,
    layout: gl.constexpr,
    masked: gl.constexpr,
    wide: gl.constexpr,
    bit: gl.constexpr,
):
    """Load like load_tile, but row r holds row r ^ 4 where column bit `bit` is set.

    That is the order in which the lanes of these columns sum the keys.
    """
    row = gl.arange(0, count, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, stop - start, layout=gl.SliceLayout(0, layout))[None, :]
    row = row ^ (((column >> bit) & 1) * 4)
    row = gl.max_constancy(row, [1, 8])
    return load_rows(pointer, stride_row, stride_column, first, rows, row, start + column, stop, masked, wide)


@gluon.jit
def load_rows(
    pointer,
    stride_row,
    stride_column,
    first,
    rows,
    row,
    column,
    stop: gl.constexpr,
    masked: gl.constexpr,
    wide: gl.constexpr,
):
    """Load the elements at `first + row` and `column`. Offsets within a head have 64 bits only where 32 are too few.

    Columns follow the address of a row: the loads of a thread from one row differ by constants.
    """
    if wide:
        address = pointer + (row.to(gl.int64) * stride_row + first.to(gl.int64) * stride_row)
        address += column.to(gl.int64) * stride_column
    else:
        address = pointer + (row * stride_row + first * stride_row)
        address += column * stride_column
    return gl.load(address, mask=row < rows, other=0.0) if masked else gl.load(address)


@gluon.jit
def touch(fragment):
    """Take a fragment for nothing: its place in shared memory is then computed once, before all loops.

    Computed before each loop, it would keep what it is computed from in registers through the loops before.
    """
    gl.inline_asm_elementwise(
        asm="mov.b32 $0, $1;",
        constraints="=r,r",
        args=[fragment],
        dtype=gl.float16,
        is_pure=False,
        pack=2,
    )


@gluon.jit
def pinned(number):
    """The number, not seen through: else parts of it would be computed before a loop, and take registers in it."""
    return gl.inline_asm_elementwise(
        asm="mov.b32 $0, $1;", constraints="=r,r", args=[number], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def attend(
    k,
    v,
    stride_kt,
    stride_kd,
    stride_vt,
    stride_vd,
    factor,
    first,
    keys_left,
    masked: gl.constexpr,
    wide: gl.constexpr,
    q_buffer0,
    q_buffer1,
    k_buffer0,
    k_buffer1,
    v_buffer0,
    v_buffer1,
    s_buffer_low,
    s_buffer_high,
    output0,
    output1,
    row_max,
    row_sum,
):
    """Attend to one tile, whose K lies in shared memory; fetch its V and the K of the next tile meanwhile.

    `first` is the tile's first key. If masked, `keys_left` are left from it on, which may be fewer than a tile.
    """
    value0 = load_turned(v, stride_vt, stride_vd, first, keys_left, 32, 0, 128, TILE_V0, masked, wide, 4)
    value1 = load_turned(v, stride_vt, stride_vd, first, keys_left, 32, 128, 160, TILE_V1, masked, wide, 3)
    key0 = load_tile(k, stride_kt, stride_kd, first + 32, keys_left - 32, 32, 0, 128, TILE_K0, masked, wide)
    key1 = load_tile(k, stride_kt, stride_kd, first + 32, keys_left - 32, 32, 128, 160, TILE_K1, masked, wide)

    # S = Q K^T
    product = gl.zeros([2, 4, 2, 2, 4, 2, 2, 2, 4], gl.float32, layout=ACCUMULATOR_S)
    for step in gl.static_range(8):
        query0 = q_buffer0.slice(step * 16, 16, dim=1).load(FRAGMENT_Q)
        key_step = k_buffer0.slice(step * 16, 16, dim=1).load(FRAGMENT_K)
        query_low, query_high = steps_of(query0, 64)
        key_low, key_high = steps_of(key_step, 32)
        product = mma_s(product, operand_q(query_low), operand_k(key_low))
        product = mma_s(product, operand_q(query_high), operand_k(key_high))
    for step in gl.static_range(2):
        query1 = q_buffer1.slice(step * 16, 16, dim=1).load(FRAGMENT_Q)
        key_step = k_buffer1.slice(step * 16, 16, dim=1).load(FRAGMENT_K)
        query_low, query_high = steps_of(query1, 64)
        key_low, key_high = steps_of(key_step, 32)
        product = mma_s(product, operand_q(query_low), operand_k(key_low))
        product = mma_s(product, operand_q(query_high), operand_k(key_high))

    # Each of 2 warps with the same rows has summed over its columns; all of them add all sums, in the same order.
    partial = gl.convert_layout(product.reshape([128, 32]), PARTIAL_S, assert_trivial=True)
    partial_low, partial_high = halves(partial, 128, 32)
    gl.barrier()  # the fragments of K and of the V before have been read: the partial sums go there
    s_buffer_low.store(partial_low)
    s_buffer_high.store(partial_high)
    gl.barrier()  # the partial sums are there
    scores_low = s_buffer_low.slice(0, 64, dim=0).load(HALF_S)
    scores_low += s_buffer_low.slice(64, 64, dim=0).load(HALF_S)
    scores_high = s_buffer_high.slice(0, 64, dim=0).load(HALF_S)
    scores_high += s_buffer_high.slice(64, 64, dim=0).load(HALF_S)
    gl.barrier()  # the partial sums have been read
    v_buffer0.store(value0)
    v_buffer1.store(value1)
    k_buffer0.store(key0)
    k_buffer1.store(key1)
    scores = gl.join(scores_low, scores_high).permute([0, 2, 1]).reshape([64, 32])
    scores = gl.convert_layout(scores, MATRIX_S, assert_trivial=True)
    if masked:
        # Keys and rows that a thread's registers tell apart are constants: only the others take a register.
        column = gl.arange(0, 32, layout=gl.SliceLayout(0, MATRIX_S))[None, :]
        visible = (column & 25) < pinned(keys_left - (column & 6))
        scores = gl.where(visible, scores, -float("inf"))

    # Online softmax in the log2 domain; every row lies within one warp, and its sum within a thread until the end.
    new_max = gl.maximum(row_max, gl.max(scores, axis=1) * factor)
    decay = gl.exp2(row_max - new_max)
    row_sum = row_sum * gl.convert_layout(decay, gl.SliceLayout(1, SUMS), assert_trivial=True)[:, None]
    row_max = new_max

    gl.barrier()  # K and V are there
    # O = O * decay + P V, 8 keys at a time. Weights are computed times 2^-101, for their rounding.
    decay0 = gl.convert_layout(decay, gl.SliceLayout(1, MATRIX_O128), assert_trivial=True)[:, None]
    rows = gl.convert_layout(output0.reshape([64, 128]), MATRIX_O128, assert_trivial=True)
    rows = (rows * decay0).reshape([4, 2, 2, 4, 4, 2, 2, 2, 4])
    output0 = gl.convert_layout(rows, ACCUMULATOR_O128, assert_trivial=True)
    decay1 = gl.convert_layout(decay, gl.SliceLayout(1, MATRIX_O32), assert_trivial=True)[:, None]
    rows = gl.convert_layout(output1.reshape([64, 32]), MATRIX_O32, assert_trivial=True)
    rows = (rows * decay1).reshape([4, 2, 2, 4, 2, 2, 2, 4])
    output1 = gl.convert_layout(rows, ACCUMULATOR_O32, assert_trivial=True)
    shift = new_max + 101.0
    shift = gl.convert_layout(shift, gl.SliceLayout(1, GROUP_S), assert_trivial=True)[:, None]
    scores_0_16, scores_16_32 = halves(scores, 64, 32)
    scores_0_8, scores_8_16 = halves(scores_0_16, 64, 16)
    scores_16_24, scores_24_32 = halves(scores_16_32, 64, 16)
    # keys 0 to 7
    weights = gl.exp2(gl.convert_layout(scores_0_8, GROUP_S, assert_trivial=True) * factor - shift)
    row_sum += sums(weights)
    near = exchange(rounded(weights))
    far = partner(near)
    fragment = v_buffer0.slice(0, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(near), operand_v128(fragment))
    fragment = v_buffer1.slice(0, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(near), operand_v32(fragment))
    fragment = v_buffer0.slice(4, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(far), operand_v128(fragment))
    fragment = v_buffer1.slice(4, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(far), operand_v32(fragment))
    # keys 8 to 15
    weights = gl.exp2(gl.convert_layout(scores_8_16, GROUP_S, assert_trivial=True) * factor - shift)
    row_sum += sums(weights)
    near = exchange(rounded(weights))
    far = partner(near)
    fragment = v_buffer0.slice(8, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(near), operand_v128(fragment))
    fragment = v_buffer1.slice(8, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(near), operand_v32(fragment))
    fragment = v_buffer0.slice(12, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(far), operand_v128(fragment))
    fragment = v_buffer1.slice(12, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(far), operand_v32(fragment))
    # keys 16 to 23
    weights = gl.exp2(gl.convert_layout(scores_16_24, GROUP_S, assert_trivial=True) * factor - shift)
    row_sum += sums(weights)
    near = exchange(rounded(weights))
    far = partner(near)
    fragment = v_buffer0.slice(16, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(near), operand_v128(fragment))
    fragment = v_buffer1.slice(16, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(near), operand_v32(fragment))
    fragment = v_buffer0.slice(20, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(far), operand_v128(fragment))
    fragment = v_buffer1.slice(20, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(far), operand_v32(fragment))
    # keys 24 to 31
    weights = gl.exp2(gl.convert_layout(scores_24_32, GROUP_S, assert_trivial=True) * factor - shift)
    row_sum += sums(weights)
    near = exchange(rounded(weights))
    far = partner(near)
    fragment = v_buffer0.slice(24, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(near), operand_v128(fragment))
    fragment = v_buffer1.slice(24, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(near), operand_v32(fragment))
    fragment = v_buffer0.slice(28, 4, dim=0).load(FRAGMENT_V128)
    output0 = mma_o(output0, operand_p128(far), operand_v128(fragment))
    fragment = v_buffer1.slice(28, 4, dim=0).load(FRAGMENT_V32)
    output1 = mma_o(output1, operand_p32(far), operand_v32(fragment))
    return output0, output1, row_max, row_sum


@gluon.jit
def attention_kernel(
    q,
    k,
    v,
    out,
    lse,
    scale,
    stride_qb,
    stride_qh,
    stride_qt,
    stride_qd,
    stride_kb,
    stride_kh,
    stride_kt,
    stride_kd,
    stride_vb,
    stride_vh,
    stride_vt,
    stride_vd,
    stride_ob,
    stride_oh,
    stride_ot,
    stride_od,
    stride_lb,
    stride_lh,
    stride_lt,
    group,
    t_q,
    t_k,
    wide: gl.constexpr,
):
    """One block attends with 64 queries of one head, 32 a group of 2 warps; tiles of 32 keys."""
    first_query = gl.program_id(0) * 64
    queries = t_q - first_query
    head = gl.program_id(1).to(gl.int64)
    kv_head = (gl.program_id(1) // group).to(gl.int64)
    batch = gl.program_id(2).to(gl.int64)
    q += batch * stride_qb + head * stride_qh
    k += batch * stride_kb + kv_head * stride_kh
    v += batch * stride_vb + kv_head * stride_vh
    factor = scale * LOG2_E
    tiles = (t_k + 31) >> 5
    # A tile needs masks when it, or the one after it, is not whole.
    unmasked_tiles = gl.maximum((t_k >> 5) - 1, 0)
    first_key = gl.to_tensor(0)

    # Q stays in shared memory. K of a tile is stored before the tile's turn, its V while S is computed.
    query0 = load_tile(q, stride_qt, stride_qd, first_query, queries, 64, 0, 128, TILE_Q0, True, wide)
    q_buffer0 = gl.allocate_shared_memory(gl.float16, [64, 128], BUFFER_Q0, query0)
    query1 = load_tile(q, stride_qt, stride_qd, first_query, queries, 64, 128, 160, TILE_Q1, True, wide)
    q_buffer1 = gl.allocate_shared_memory(gl.float16, [64, 32], BUFFER_Q1, query1)
    key0 = load_tile(k, stride_kt, stride_kd, first_key, t_k, 32, 0, 128, TILE_K0, True, wide)
    k_buffer0 = gl.allocate_shared_memory(gl.float16, [32, 128], BUFFER_K0, key0)
    key1 = load_tile(k, stride_kt, stride_kd, first_key, t_k, 32, 128, 160, TILE_K1, True, wide)
    k_buffer1 = gl.allocate_shared_memory(gl.float16, [32, 32], BUFFER_K1, key1)
    v_buffer0 = gl.allocate_shared_memory(gl.float16, [32, 128], BUFFER_V0)
    output0 = gl.zeros([4, 2, 2, 4, 4, 2, 2, 2, 4], gl.float32, layout=ACCUMULATOR_O128)
    v_buffer1 = gl.allocate_shared_memory(gl.float16, [32, 32], BUFFER_V1)
    output1 = gl.zeros([4, 2, 2, 4, 2, 2, 2, 4], gl.float32, layout=ACCUMULATOR_O32)
    if PUBLIC_REINTERPRET:
        s_buffer_low = k_buffer0.reinterpret(gl.float32, [128, 16], BUFFER_S_LOW)
    else:
        s_buffer_low = k_buffer0._reinterpret(gl.float32, [128, 16], BUFFER_S_LOW)
    if PUBLIC_REINTERPRET:
        s_buffer_high = v_buffer0.reinterpret(gl.float32, [128, 16], BUFFER_S_HIGH)
    else:
        s_buffer_high = v_buffer0._reinterpret(gl.float32, [128, 16], BUFFER_S_HIGH)
    row_max = gl.full([64], -float("inf"), gl.float32, layout=gl.SliceLayout(1, MATRIX_S))
    row_sum = gl.zeros([64, 4], gl.float32, layout=SUMS)
    touch(q_buffer0.slice(0, 16, dim=1).load(FRAGMENT_Q))
    touch(k_buffer0.slice(0, 16, dim=1).load(FRAGMENT_K))
    touch(q_buffer1.slice(0, 16, dim=1).load(FRAGMENT_Q))
    touch(k_buffer1.slice(0, 16, dim=1).load(FRAGMENT_K))
    v_buffer0.store(gl.zeros([32, 128], gl.float16, layout=TILE_V0))
    touch(v_buffer0.slice(0, 4, dim=0).load(FRAGMENT_V128))
    v_buffer1.store(gl.zeros([32, 32], gl.float16, layout=TILE_V1))
    touch(v_buffer1.slice(0, 4, dim=0).load(FRAGMENT_V32))

    gl.barrier()  # Q and K are there
    for tile in range(0, unmasked_tiles):
        output0, output1, row_max, row_sum = attend(
            k,
            v,
            stride_kt,
            stride_kd,
            stride_vt,
            stride_vd,
            factor,
            tile * 32,
            t_k - tile * 32,
            False,
            wide,
            q_buffer0,
            q_buffer1,
            k_buffer0,
            k_buffer1,
            v_buffer0,
            v_buffer1,
            s_buffer_low,
            s_buffer_high,
            output0,
            output1,
            row_max,
            row_sum,
        )
    for tile in range(unmasked_tiles, tiles):
        output0, output1, row_max, row_sum = attend(
            k,
            v,
            stride_kt,
            stride_kd,
            stride_vt,
            stride_vd,
            factor,
            tile * 32,
            t_k - tile * 32,
            True,
            wide,
            q_buffer0,
            q_buffer1,
            k_buffer0,
            k_buffer1,
            v_buffer0,
            v_buffer1,
            s_buffer_low,
            s_buffer_high,
            output0,
            output1,
            row_max,
            row_sum,
        )

    # A row without any visible key has a sum of 0: its output is 0 and its LSE -inf.
    total = gl.convert_layout(gl.sum(row_sum, axis=1), gl.SliceLayout(1, MATRIX_S), assert_trivial=True) * 2.0**101
    empty = total == 0.0
    inverse = gl.where(empty, 0.0, 2.0**-11 / gl.where(empty, 1.0, total))
    out += batch * stride_ob + head * stride_oh + first_query.to(gl.int64) * stride_ot
    lse += batch * stride_lb + head * stride_lh + first_query.to(gl.int64) * stride_lt
    share = gl.convert_layout(inverse, gl.SliceLayout(1, MATRIX_O128), assert_trivial=True)[:, None]
    rows = gl.convert_layout(output0.reshape([64, 128]), MATRIX_O128, assert_trivial=True)
    r = gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_O128))[:, None]
    d = gl.arange(0, 128, layout=gl.SliceLayout(0, MATRIX_O128))[None, :]
    gl.store(
        out + r.to(gl.int64) * stride_ot + d.to(gl.int64) * stride_od, (rows * share).to(gl.float16), mask=r < queries
    )
    share = gl.convert_layout(inverse, gl.SliceLayout(1, MATRIX_O32), assert_trivial=True)[:, None]
    rows = gl.convert_layout(output1.reshape([64, 32]), MATRIX_O32, assert_trivial=True)
    r = gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_O32))[:, None]
    d = 128 + gl.arange(0, 32, layout=gl.SliceLayout(0, MATRIX_O32))[None, :]
    gl.store(
        out + r.to(gl.int64) * stride_ot + d.to(gl.int64) * stride_od, (rows * share).to(gl.float16), mask=r < queries
    )
    row = gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_S))
    log_sum = gl.where(empty, -float("inf"), (row_max + gl.log2(gl.where(empty, 1.0, total))) * LN_2)
    gl.store(lse + row.to(gl.int64) * stride_lt, log_sum, mask=row < queries)


def launch_arguments(q, k, v, out, lse, scale=None):
    """Check the arrays and return the grid and the kernel's arguments.

    q and out are [B, H, Tq, 160], k and v [B, Hkv, Tk, 160] with Hkv dividing H, lse [B, H, Tq]; strides are free.
    lse is float32, everything else float16. scale must be positive; it defaults to 1 / sqrt(160). Raises TypeError
    or ValueError on anything else.
    """
    for name, array, dtypes in (
        ("q", q, ("float16",)),
        ("k", k, ("float16",)),
        ("v", v, ("float16",)),
        ("out", out, ("float16",)),
        ("lse", lse, ("float32",)),
    ):
        dtype = getattr(array, "dtype", type(array).__name__)
        if str(dtype).rsplit(".")[-1] not in dtypes:
            raise TypeError(f"{name} is {dtype}; it must be {' or '.join(dtypes)}")
    if len(q.shape) != 4 or len(k.shape) != 4:
        raise ValueError(f"q and k are {tuple(q.shape)} and {tuple(k.shape)}; they must be [B, H, T, 160]")
    batch, heads, t_q, head_dim = q.shape
    _, kv_heads, t_k, _ = k.shape
    if head_dim != 160:
        raise ValueError(f"head dim {head_dim}: this kernel was emitted for 160")
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{heads} query heads over {kv_heads} key heads: the latter must divide the former")
    for name, array, shape in (
        ("k", k, (batch, kv_heads, t_k, head_dim)),
        ("v", v, (batch, kv_heads, t_k, head_dim)),
        ("out", out, (batch, heads, t_q, head_dim)),
        ("lse", lse, (batch, heads, t_q)),
    ):
        if tuple(array.shape) != shape:
            raise ValueError(f"{name} is {tuple(array.shape)}; with these q and k it must be {shape}")
    grid = (-(-t_q // 64), heads, batch)
    if heads > 65535 or batch > 65535:
        raise ValueError(f"grid {grid}: a launch has at most 65535 heads and 65535 batches")
    scale = 160**-0.5 if scale is None else float(scale)
    if not 1e-30 <= scale <= 1e30:
        raise ValueError(f"scale {scale}: must lie in 1e-30..1e30; for a negative one negate q")
    # Offsets within a head fit into 32 bits unless it is very long, or its rows lie very far apart.
    sizes = [(q, t_q + 64, 160), (k, t_k + 64, 160), (v, t_k + 64, 160)]
    farthest = max(rows * abs(array.stride(2)) + columns * abs(array.stride(3)) for array, rows, columns in sizes)
    strides = [array.stride(dim) for array in (q, k, v, out, lse) for dim in range(len(array.shape))]
    return grid, (q, k, v, out, lse, scale, *strides, heads // kv_heads, t_q, t_k, farthest >= 2**31)


def attention(q, k, v, out, lse, scale=None):
    """Attend on the device that holds the arrays; see launch_arguments. Returns out and lse (natural logarithm)."""
    grid, arguments = launch_arguments(q, k, v, out, lse, scale)
    if all(grid):
        attention_kernel[grid](*arguments, **OPTIONS)
    return out, lse
