"""Flash attention, forward: head dim 40 as 32 + 16, tiles of 64 queries x 32 keys.

Tensor-core products of 8x8x4 (SM70_8x8x4_F32F16F16F32_TN), 4 warps of whole rows; softmax in fp32,
no bias, grouped query heads, any strides and lengths.

Emitted by layoutgen 0.1.0 from template attention.py.jinja (12df43fe2868).
Do not edit; regenerate it with

    layoutgen emit attention --head-dim 40 --split 32,16 --block-m 64 --block-n 32 --atom m8n8k4
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# What was asked for, how it is compiled, and the types of the kernel's parameters as they come from contiguous arrays.
# Fusion of multiplications and additions is chosen here because Triton's own default differs between versions.
REQUEST = {
    "kernel": "attention",
    "head_dim": 40,
    "atom": "SM70_8x8x4_F32F16F16F32_TN",
    "block_m": 64,
    "block_n": 32,
    "split": [32, 16],
    "bias": False,
    "arrangement": "m3,n3",
    "warps": "4x1",
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
}

LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)

# Bits: lane = a0 + 2 a1 + 4 q0 + 8 q1 + 16 b; a thread's element of an accumulator or fragment = v0 + 2 v1 + 4 v2;
# mb and nb are a unit's row and column in the block. `v0: n0` says that hardware bit v0 moves bit 0 of n;
# `free` that the layout is replicated over that bit.

# The accumulator of S = Q K^T as a matrix: who holds which element.
MATRIX_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [0, 4],  # v2: n2
            [0, 16],  # nb0: n4
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [8, 0],  # q0: m3
            [0, 8],  # q1: n3
            [4, 0],  # b: m2
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [32, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[64, 32],
    )
)


# MATRIX_S, cut into dims along which each operand is a broadcast.
ACCUMULATOR_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 1],  # v0: n0
            [0, 0, 2, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 1, 0],  # v2: n2
            [0, 0, 0, 1, 0, 0, 0],  # nb0: n4
        ],
        lane_bases=[
            [0, 0, 1, 0, 0, 0, 0],  # a0: m0
            [0, 0, 0, 0, 0, 0, 2],  # a1: n1
            [0, 1, 0, 0, 0, 0, 0],  # q0: m3
            [0, 0, 0, 0, 1, 0, 0],  # q1: n3
            [0, 0, 4, 0, 0, 0, 0],  # b: m2
        ],
        warp_bases=[
            [1, 0, 0, 0, 0, 0, 0],  # mb0: m4
            [2, 0, 0, 0, 0, 0, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[4, 2, 8, 2, 2, 2, 4],
    )
)


# One k-step of 4 of the left operand, [m, k].
FRAGMENT_A_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
            [0, 0],  # nb0: free
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [2, 0],  # a1: m1
            [8, 0],  # q0: m3
            [0, 0],  # q1: free
            [4, 0],  # b: m2
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [32, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[64, 4],
    )
)


# One k-step of 4 of the right operand, [n, k].
FRAGMENT_B_S = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
            [16, 0],  # nb0: n4
        ],
        lane_bases=[
            [1, 0],  # a0: n0
            [2, 0],  # a1: n1
            [0, 0],  # q0: free
            [8, 0],  # q1: n3
            [4, 0],  # b: n2
        ],
        warp_bases=[
            [0, 0],  # mb0: free
            [0, 0],  # mb1: free
        ],
        block_bases=[],
        shape=[32, 4],
    )
)


# The accumulator of 32 columns of O as a matrix: who holds which element.
MATRIX_O32 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [0, 4],  # v2: n2
            [0, 16],  # nb0: n4
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [8, 0],  # q0: m3
            [0, 8],  # q1: n3
            [4, 0],  # b: m2
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [32, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[64, 32],
    )
)


# MATRIX_O32, cut into dims along which each operand is a broadcast.
ACCUMULATOR_O32 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 1],  # v0: n0
            [0, 0, 2, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 1, 0],  # v2: n2
            [0, 0, 0, 1, 0, 0, 0],  # nb0: n4
        ],
        lane_bases=[
            [0, 0, 1, 0, 0, 0, 0],  # a0: m0
            [0, 0, 0, 0, 0, 0, 2],  # a1: n1
            [0, 1, 0, 0, 0, 0, 0],  # q0: m3
            [0, 0, 0, 0, 1, 0, 0],  # q1: n3
            [0, 0, 4, 0, 0, 0, 0],  # b: m2
        ],
        warp_bases=[
            [1, 0, 0, 0, 0, 0, 0],  # mb0: m4
            [2, 0, 0, 0, 0, 0, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[4, 2, 8, 2, 2, 2, 4],
    )
)


# One k-step of 4 of the left operand, [m, k].
FRAGMENT_A_O32 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
            [0, 0],  # nb0: free
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [2, 0],  # a1: m1
            [8, 0],  # q0: m3
            [0, 0],  # q1: free
            [4, 0],  # b: m2
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [32, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[64, 4],
    )
)


# One k-step of 4 of the right operand, [n, k].
FRAGMENT_B_O32 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
            [16, 0],  # nb0: n4
        ],
        lane_bases=[
            [1, 0],  # a0: n0
            [2, 0],  # a1: n1
            [0, 0],  # q0: free
            [8, 0],  # q1: n3
            [4, 0],  # b: n2
        ],
        warp_bases=[
            [0, 0],  # mb0: free
            [0, 0],  # mb1: free
        ],
        block_bases=[],
        shape=[32, 4],
    )
)


# The accumulator of 16 columns of O as a matrix: who holds which element.
MATRIX_O16 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [0, 4],  # v2: n2
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [8, 0],  # q0: m3
            [0, 8],  # q1: n3
            [4, 0],  # b: m2
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [32, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[64, 16],
    )
)


# MATRIX_O16, cut into dims along which each operand is a broadcast.
ACCUMULATOR_O16 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 1],  # v0: n0
            [0, 0, 2, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 1, 0],  # v2: n2
        ],
        lane_bases=[
            [0, 0, 1, 0, 0, 0, 0],  # a0: m0
            [0, 0, 0, 0, 0, 0, 2],  # a1: n1
            [0, 1, 0, 0, 0, 0, 0],  # q0: m3
            [0, 0, 0, 0, 1, 0, 0],  # q1: n3
            [0, 0, 4, 0, 0, 0, 0],  # b: m2
        ],
        warp_bases=[
            [1, 0, 0, 0, 0, 0, 0],  # mb0: m4
            [2, 0, 0, 0, 0, 0, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[4, 2, 8, 1, 2, 2, 4],
    )
)


# One k-step of 4 of the left operand, [m, k].
FRAGMENT_A_O16 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [2, 0],  # a1: m1
            [8, 0],  # q0: m3
            [0, 0],  # q1: free
            [4, 0],  # b: m2
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [32, 0],  # mb1: m5
        ],
        block_bases=[],
        shape=[64, 4],
    )
)


# One k-step of 4 of the right operand, [n, k].
FRAGMENT_B_O16 = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
        ],
        lane_bases=[
            [1, 0],  # a0: n0
            [2, 0],  # a1: n1
            [0, 0],  # q0: free
            [8, 0],  # q1: n3
            [4, 0],  # b: n2
        ],
        warp_bases=[
            [0, 0],  # mb0: free
            [0, 0],  # mb1: free
        ],
        block_bases=[],
        shape=[16, 4],
    )
)


# Columns 0 to 31 of Q: contraction along the columns; a warp stores it in 4 x 64 bits, 32 wavefronts (8 at least).
TILE_Q0 = gl.constexpr(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]))
# Of K: contraction along the columns; a warp stores it in 2 x 64 bits, 16 wavefronts (4 at least).
TILE_K0 = gl.constexpr(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]))
# Of V: contraction along the rows; a warp stores it in 1 x 128 bits, 4 wavefronts (4 at least).
TILE_V0 = gl.constexpr(gl.BlockedLayout([4, 2], [2, 16], [4, 1], [1, 0]))
# Columns 32 to 47 of Q: contraction along the columns; a warp stores it in 2 x 64 bits, 8 wavefronts (4 at least).
TILE_Q1 = gl.constexpr(gl.BlockedLayout([1, 8], [16, 2], [4, 1], [1, 0]))
# Of K: contraction along the columns; a warp stores it in 1 x 64 bits, 8 wavefronts (2 at least).
TILE_K1 = gl.constexpr(gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))
# Of V: contraction along the rows; a warp stores it in 1 x 64 bits, 2 wavefronts (2 at least).
TILE_V1 = gl.constexpr(gl.BlockedLayout([4, 1], [2, 16], [4, 1], [1, 0]))
# Buffers hold one slab of rows per k-step, each row 4 consecutive k.
BUFFER = gl.constexpr(gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[1, 0]))


@gluon.jit
def mma(accumulator, a, b):
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
def operand_a_s(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([16, 2, 2, 2, 2])
    fragment = fragment.permute([0, 3, 2, 1, 4])
    fragment = fragment.reshape([4, 2, 8, 1, 1, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_S, assert_trivial=True)


@gluon.jit
def operand_b_s(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([4, 2, 2, 2, 2, 2])
    fragment = fragment.permute([1, 4, 3, 0, 2, 5])
    fragment = fragment.reshape([1, 1, 8, 2, 2, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_S, assert_trivial=True)


@gluon.jit
def to_matrix_s(accumulator):
    """The accumulator as a matrix. Moves no data."""
    return gl.convert_layout(accumulator.reshape([64, 32]), MATRIX_S, assert_trivial=True)


@gluon.jit
def operand_a_o32(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([16, 2, 2, 2, 2])
    fragment = fragment.permute([0, 3, 2, 1, 4])
    fragment = fragment.reshape([4, 2, 8, 1, 1, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O32, assert_trivial=True)


@gluon.jit
def operand_b_o32(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([4, 2, 2, 2, 2, 2])
    fragment = fragment.permute([1, 4, 3, 0, 2, 5])
    fragment = fragment.reshape([1, 1, 8, 2, 2, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O32, assert_trivial=True)


@gluon.jit
def to_matrix_o32(accumulator):
    """The accumulator as a matrix. Moves no data."""
    return gl.convert_layout(accumulator.reshape([64, 32]), MATRIX_O32, assert_trivial=True)


@gluon.jit
def operand_a_o16(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([16, 2, 2, 2, 2])
    fragment = fragment.permute([0, 3, 2, 1, 4])
    fragment = fragment.reshape([4, 2, 8, 1, 1, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O16, assert_trivial=True)


@gluon.jit
def operand_b_o16(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([2, 2, 2, 2, 2, 2])
    fragment = fragment.permute([1, 4, 3, 0, 2, 5])
    fragment = fragment.reshape([1, 1, 8, 1, 2, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_O16, assert_trivial=True)


@gluon.jit
def to_matrix_o16(accumulator):
    """The accumulator as a matrix. Moves no data."""
    return gl.convert_layout(accumulator.reshape([64, 16]), MATRIX_O16, assert_trivial=True)


@gluon.jit
def to_accumulator_o32(matrix):
    """The matrix as an accumulator again. Moves no data."""
    return gl.convert_layout(matrix.reshape([4, 2, 8, 2, 2, 2, 4]), ACCUMULATOR_O32, assert_trivial=True)


@gluon.jit
def to_accumulator_o16(matrix):
    """The matrix as an accumulator again. Moves no data."""
    return gl.convert_layout(matrix.reshape([4, 2, 8, 1, 2, 2, 4]), ACCUMULATOR_O16, assert_trivial=True)


@gluon.jit
def load_tile(
    pointer,
    stride_row,
    stride_column,
    rows_left,
    height: gl.constexpr,
    start: gl.constexpr,
    stop: gl.constexpr,
    layout: gl.constexpr,
):
    """Load `height` rows of columns `start` to `stop`; what lies beyond the tensor or the head dim is zero."""
    row = gl.arange(0, height, layout=gl.SliceLayout(1, layout))[:, None]
    column = start + gl.arange(0, stop - start, layout=gl.SliceLayout(0, layout))[None, :]
    inside = row < rows_left
    if stop > 40:
        inside = inside & (column < 40)
    offset = row.to(gl.int64) * stride_row + column.to(gl.int64) * stride_column
    return gl.load(pointer + offset, mask=inside, other=0.0)


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
):
    """One block attends with 64 queries of one head, 16 a warp. Offsets of rows and columns are 64 bits wide."""
    first_query = gl.program_id(0) * 64
    queries = t_q - first_query
    head = gl.program_id(1).to(gl.int64)
    kv_head = (gl.program_id(1) // group).to(gl.int64)
    batch = gl.program_id(2).to(gl.int64)
    q += batch * stride_qb + head * stride_qh + first_query.to(gl.int64) * stride_qt
    k += batch * stride_kb + kv_head * stride_kh
    v += batch * stride_vb + kv_head * stride_vh
    out += batch * stride_ob + head * stride_oh + first_query.to(gl.int64) * stride_ot
    lse += batch * stride_lb + head * stride_lh + first_query.to(gl.int64) * stride_lt

    # Q, scaled and rounded to its own dtype, stays in shared memory.
    query = load_tile(q, stride_qt, stride_qd, queries, 64, 0, 32, TILE_Q0)
    query = (query.to(gl.float32) * scale).to(gl.float16)
    q_buffer0 = gl.allocate_shared_memory(gl.float16, [512, 4], BUFFER)
    query = query.reshape([64, 8, 4]).permute([1, 0, 2])
    q_buffer0.store(query.reshape([512, 4]))
    query = load_tile(q, stride_qt, stride_qd, queries, 64, 32, 48, TILE_Q1)
    query = (query.to(gl.float32) * scale).to(gl.float16)
    q_buffer1 = gl.allocate_shared_memory(gl.float16, [256, 4], BUFFER)
    query = query.reshape([64, 4, 4]).permute([1, 0, 2])
    q_buffer1.store(query.reshape([256, 4]))
    k_buffer0 = gl.allocate_shared_memory(gl.float16, [256, 4], BUFFER)
    v_buffer0 = gl.allocate_shared_memory(gl.float16, [256, 4], BUFFER)
    output0 = gl.zeros([4, 2, 8, 2, 2, 2, 4], gl.float32, layout=ACCUMULATOR_O32)
    k_buffer1 = gl.allocate_shared_memory(gl.float16, [128, 4], BUFFER)
    v_buffer1 = gl.allocate_shared_memory(gl.float16, [128, 4], BUFFER)
    output1 = gl.zeros([4, 2, 8, 1, 2, 2, 4], gl.float32, layout=ACCUMULATOR_O16)
    p_buffer = gl.allocate_shared_memory(gl.float16, [512, 4], BUFFER)

    row = gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_S))
    column = gl.arange(0, 32, layout=gl.SliceLayout(0, MATRIX_S))
    row_max = gl.full([64], -float("inf"), gl.float32, layout=gl.SliceLayout(1, MATRIX_S))
    row_sum = gl.full([64], 0.0, gl.float32, layout=gl.SliceLayout(1, MATRIX_S))
    for first_key in range(0, t_k, 32):
        keys = t_k - first_key
        k_tile = k + first_key.to(gl.int64) * stride_kt
        v_tile = v + first_key.to(gl.int64) * stride_vt
        key0 = load_tile(k_tile, stride_kt, stride_kd, keys, 32, 0, 32, TILE_K0)
        value0 = load_tile(v_tile, stride_vt, stride_vd, keys, 32, 0, 32, TILE_V0)
        key1 = load_tile(k_tile, stride_kt, stride_kd, keys, 32, 32, 48, TILE_K1)
        value1 = load_tile(v_tile, stride_vt, stride_vd, keys, 32, 32, 48, TILE_V1)
        gl.barrier()  # the fragments of the tiles before have been read
        key0 = key0.reshape([32, 8, 4]).permute([1, 0, 2])
        k_buffer0.store(key0.reshape([256, 4]))
        value0 = value0.reshape([8, 4, 32]).permute([0, 2, 1])
        v_buffer0.store(value0.reshape([256, 4]))
        key1 = key1.reshape([32, 4, 4]).permute([1, 0, 2])
        k_buffer1.store(key1.reshape([128, 4]))
        value1 = value1.reshape([8, 4, 16]).permute([0, 2, 1])
        v_buffer1.store(value1.reshape([128, 4]))
        gl.barrier()  # Q, K and V are in their buffers

        # S = Q K^T, in the log2 domain.
        product = gl.zeros([4, 2, 8, 2, 2, 2, 4], gl.float32, layout=ACCUMULATOR_S)
        for step in gl.static_range(8):
            fragment_a = q_buffer0.slice(step * 64, 64).load(FRAGMENT_A_S)
            fragment_b = k_buffer0.slice(step * 32, 32).load(FRAGMENT_B_S)
            operand_b = operand_b_s(fragment_b)
            product = mma(product, operand_a_s(fragment_a), operand_b)
        for step in gl.static_range(4):
            fragment_a = q_buffer1.slice(step * 64, 64).load(FRAGMENT_A_S)
            fragment_b = k_buffer1.slice(step * 32, 32).load(FRAGMENT_B_S)
            operand_b = operand_b_s(fragment_b)
            product = mma(product, operand_a_s(fragment_a), operand_b)
        scores = to_matrix_s(product) * LOG2_E
        visible = column[None, :] < keys
        scores = gl.where(visible, scores, -float("inf"))

        # Online softmax; every row lies within one warp.
        new_max = gl.maximum(row_max, gl.max(scores, axis=1))
        decay = gl.exp2(row_max - new_max)
        weights = gl.exp2(scores - new_max[:, None])
        row_sum = row_sum * decay + gl.sum(weights, axis=1)
        row_max = new_max

        # O = O * decay + P V; P goes through shared memory to become a left operand.
        weights = weights.to(gl.float16)
        weights = weights.reshape([64, 8, 4]).permute([1, 0, 2])
        p_buffer.store(weights.reshape([512, 4]))
        gl.barrier()  # a warp reads only what it wrote, but its lanes exchange elements
        factor = gl.convert_layout(decay, gl.SliceLayout(1, MATRIX_O32), assert_trivial=True)
        output0 = to_accumulator_o32(to_matrix_o32(output0) * factor[:, None])
        for step in gl.static_range(8):
            fragment_a = p_buffer.slice(step * 64, 64).load(FRAGMENT_A_O32)
            fragment_b = v_buffer0.slice(step * 32, 32).load(FRAGMENT_B_O32)
            operand_b = operand_b_o32(fragment_b)
            output0 = mma(output0, operand_a_o32(fragment_a), operand_b)
        factor = gl.convert_layout(decay, gl.SliceLayout(1, MATRIX_O16), assert_trivial=True)
        output1 = to_accumulator_o16(to_matrix_o16(output1) * factor[:, None])
        for step in gl.static_range(8):
            fragment_a = p_buffer.slice(step * 64, 64).load(FRAGMENT_A_O16)
            fragment_b = v_buffer1.slice(step * 16, 16).load(FRAGMENT_B_O16)
            operand_b = operand_b_o16(fragment_b)
            output1 = mma(output1, operand_a_o16(fragment_a), operand_b)

    # A row without any visible key has a sum of 0: its output is 0 and its LSE -inf.
    empty = row_sum == 0.0
    inverse = gl.where(empty, 0.0, 1.0 / gl.where(empty, 1.0, row_sum))
    factor = gl.convert_layout(inverse, gl.SliceLayout(1, MATRIX_O32), assert_trivial=True)
    matrix = (to_matrix_o32(output0) * factor[:, None]).to(gl.float16)
    r = gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_O32))[:, None]
    d = gl.arange(0, 32, layout=gl.SliceLayout(0, MATRIX_O32))[None, :]
    gl.store(out + r.to(gl.int64) * stride_ot + d.to(gl.int64) * stride_od, matrix, mask=r < queries)
    factor = gl.convert_layout(inverse, gl.SliceLayout(1, MATRIX_O16), assert_trivial=True)
    matrix = (to_matrix_o16(output1) * factor[:, None]).to(gl.float16)
    r = gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_O16))[:, None]
    d = 32 + gl.arange(0, 16, layout=gl.SliceLayout(0, MATRIX_O16))[None, :]
    gl.store(out + r.to(gl.int64) * stride_ot + d.to(gl.int64) * stride_od, matrix, mask=(r < queries) & (d < 40))
    log_sum = gl.where(empty, -float("inf"), (row_max + gl.log2(gl.where(empty, 1.0, row_sum))) * LN_2)
    gl.store(lse + row.to(gl.int64) * stride_lt, log_sum, mask=row < queries)


def launch_arguments(q, k, v, out, lse, scale=None):
    """Check the arrays and return the grid and the kernel's arguments.

    q and out are [B, H, Tq, 40], k and v [B, Hkv, Tk, 40] with Hkv dividing H, lse [B, H, Tq];
    strides are free. lse is float32, everything else float16. scale defaults to 1 / sqrt(40).
    Raises TypeError or ValueError on anything else.
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
        raise ValueError(f"q and k are {tuple(q.shape)} and {tuple(k.shape)}; they must be [B, H, T, 40]")
    batch, heads, t_q, head_dim = q.shape
    _, kv_heads, t_k, _ = k.shape
    if head_dim != 40:
        raise ValueError(f"head dim {head_dim}: this kernel was emitted for 40")
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
    scale = 40**-0.5 if scale is None else float(scale)
    strides = [array.stride(dim) for array in (q, k, v, out, lse) for dim in range(len(array.shape))]
    return grid, (q, k, v, out, lse, scale, *strides, heads // kv_heads, t_q, t_k)


def attention(q, k, v, out, lse, scale=None):
    """Attend on the device that holds the arrays; see launch_arguments. Returns out and lse (natural logarithm)."""
    grid, arguments = launch_arguments(q, k, v, out, lse, scale)
    if all(grid):
        attention_kernel[grid](*arguments, **OPTIONS)
    return out, lse
