"""Matrix product: A [M, K] by B [K, N], tiles of 64x64x32.

Tensor-core products of 8x8x4 (SM70_8x8x4_F32F16F16F32_TN), 2x2 warps; operands float16,
accumulated in float32, C in float16; any strides, any sizes.

Emitted by layoutgen 0.1.0 from template matmul.py.jinja (3d1e3da0b8e5).
Do not edit; regenerate it with

    layoutgen emit matmul --block-m 64 --block-n 64 --block-k 32 --warps 2x2 --b-order kn --atom m8n8k4
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# What was asked for, how it is compiled, and the types of the kernel's parameters as they come from contiguous arrays.
# Fusion of multiplications and additions is chosen here because Triton's own default differs between versions.
REQUEST = {
    "kernel": "matmul",
    "atom": "SM70_8x8x4_F32F16F16F32_TN",
    "block_m": 64,
    "block_n": 64,
    "block_k": 32,
    "warps": "2x2",
    "b_order": "kn",
    "out_dtype": "float16",
    "arrangement": "m3,n3",
}
OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}
KERNEL = "matmul_kernel"
SIGNATURE = {
    "a": "*fp16",
    "b": "*fp16",
    "c": "*fp16",
    "stride_az": "i32",
    "stride_am": "i32",
    "stride_ak": "i32",
    "stride_bz": "i32",
    "stride_bk": "i32",
    "stride_bn": "i32",
    "stride_cz": "i32",
    "stride_cm": "i32",
    "stride_cn": "i32",
    "m": "i32",
    "n": "i32",
    "k": "i32",
}


# Bits: lane = a0 + 2 a1 + 4 q0 + 8 q1 + 16 b; a thread's element of an accumulator or fragment = v0 + 2 v1 + 4 v2;
# mb and nb are a unit's row and column in the block. `v0: n0` says that hardware bit v0 moves bit 0 of n;
# `free` that the layout is replicated over that bit.

# The accumulator of C = A B as a matrix: who holds which element.
MATRIX_C = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: n0
            [2, 0],  # v1: m1
            [0, 4],  # v2: n2
            [0, 32],  # nb1: n5
            [32, 0],  # mb1: m5
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
            [0, 16],  # nb0: n4
        ],
        block_bases=[],
        shape=[64, 64],
    )
)


# MATRIX_C, cut into dims along which each operand is a broadcast.
ACCUMULATOR_C = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 1],  # v0: n0
            [0, 0, 2, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 1, 0],  # v2: n2
            [0, 0, 0, 2, 0, 0, 0],  # nb1: n5
            [2, 0, 0, 0, 0, 0, 0],  # mb1: m5
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
            [0, 0, 0, 1, 0, 0, 0],  # nb0: n4
        ],
        block_bases=[],
        shape=[4, 2, 8, 4, 2, 2, 4],
    )
)


# One k-step of 4 of the left operand, [m, k].
FRAGMENT_A_C = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
            [0, 0],  # nb1: free
            [32, 0],  # mb1: m5
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
            [0, 0],  # nb0: free
        ],
        block_bases=[],
        shape=[64, 4],
    )
)


# One k-step of 4 of the right operand, [n, k].
FRAGMENT_B_C = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # v0: k0
            [0, 2],  # v1: k1
            [0, 0],  # v2: free
            [32, 0],  # nb1: n5
            [0, 0],  # mb1: free
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
            [16, 0],  # nb0: n4
        ],
        block_bases=[],
        shape=[64, 4],
    )
)


# A tile of A, 64x32: contraction along the columns; a warp stores it in 4 x 64 bits, 32 wavefronts (8 at least).
TILE_A = gl.constexpr(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]))
# A tile of B, 32x64: contraction along the rows; a warp stores it in 2 x 128 bits, 8 wavefronts (8 at least).
TILE_B = gl.constexpr(gl.BlockedLayout([4, 2], [1, 32], [4, 1], [1, 0]))
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
def operand_a_c(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([16, 2, 2, 2, 2])
    fragment = fragment.permute([0, 3, 2, 1, 4])
    fragment = fragment.reshape([4, 2, 8, 1, 1, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_C, assert_trivial=True)


@gluon.jit
def operand_b_c(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([8, 2, 2, 2, 2, 2])
    fragment = fragment.permute([1, 4, 3, 0, 2, 5])
    fragment = fragment.reshape([1, 1, 8, 4, 2, 1, 4])
    return gl.convert_layout(fragment, ACCUMULATOR_C, assert_trivial=True)


@gluon.jit
def to_matrix_c(accumulator):
    """The accumulator as a matrix. Moves no data."""
    return gl.convert_layout(accumulator.reshape([64, 64]), MATRIX_C, assert_trivial=True)


@gluon.jit
def matmul_kernel(
    a,
    b,
    c,
    stride_az,
    stride_am,
    stride_ak,
    stride_bz,
    stride_bk,
    stride_bn,
    stride_cz,
    stride_cm,
    stride_cn,
    m,
    n,
    k,
):
    """One block computes C[z, 64 rows, 64 columns]. Offsets of rows, columns and k are 64 bits wide."""
    row = gl.program_id(0).to(gl.int64) * 64
    column = gl.program_id(1).to(gl.int64) * 64
    batch = gl.program_id(2).to(gl.int64)

    a_row = row + gl.arange(0, 64, layout=gl.SliceLayout(1, TILE_A))[:, None]
    a_k = gl.arange(0, 32, layout=gl.SliceLayout(0, TILE_A))[None, :]
    a += batch * stride_az + a_row * stride_am + a_k.to(gl.int64) * stride_ak
    b_k = gl.arange(0, 32, layout=gl.SliceLayout(1, TILE_B))[:, None]
    b_column = column + gl.arange(0, 64, layout=gl.SliceLayout(0, TILE_B))[None, :]
    b += batch * stride_bz + b_k.to(gl.int64) * stride_bk + b_column * stride_bn

    a_buffer = gl.allocate_shared_memory(gl.float16, [512, 4], BUFFER)
    b_buffer = gl.allocate_shared_memory(gl.float16, [512, 4], BUFFER)
    product = gl.zeros([4, 2, 8, 4, 2, 2, 4], gl.float32, layout=ACCUMULATOR_C)
    for first_k in range(0, k, 32):
        # Rows, columns and k beyond the matrices count as zero.
        offset = first_k.to(gl.int64)
        a_tile = gl.load(a + offset * stride_ak, mask=(a_row < m) & (first_k + a_k < k), other=0.0)
        b_tile = gl.load(b + offset * stride_bk, mask=(b_column < n) & (first_k + b_k < k), other=0.0)
        gl.barrier()  # the fragments of the tiles before have been read
        a_tile = a_tile.reshape([64, 8, 4]).permute([1, 0, 2])
        a_buffer.store(a_tile.reshape([512, 4]))
        b_tile = b_tile.reshape([8, 4, 64]).permute([0, 2, 1])
        b_buffer.store(b_tile.reshape([512, 4]))
        gl.barrier()  # both tiles are in their buffers
        for step in gl.static_range(8):
            fragment_a = a_buffer.slice(step * 64, 64).load(FRAGMENT_A_C)
            fragment_b = b_buffer.slice(step * 64, 64).load(FRAGMENT_B_C)
            operand_b = operand_b_c(fragment_b)
            product = mma(product, operand_a_c(fragment_a), operand_b)

    matrix = to_matrix_c(product).to(gl.float16)
    c_row = row + gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_C))[:, None]
    c_column = column + gl.arange(0, 64, layout=gl.SliceLayout(0, MATRIX_C))[None, :]
    c += batch * stride_cz + c_row * stride_cm + c_column * stride_cn
    gl.store(c, matrix, mask=(c_row < m) & (c_column < n))


def launch_arguments(a, b, c):
    """Check the arrays and return the grid and the kernel's arguments.

    a is [M, K] or [Z, M, K], b [K, N] or [Z, K, N], c [M, N] or [Z, M, N]; strides are free.
    a and b are float16, c is float16. Raises TypeError or ValueError on anything else.
    """
    for name, array, dtypes in (
        ("a", a, ("float16",)),
        ("b", b, ("float16",)),
        ("c", c, ("float16",)),
    ):
        dtype = getattr(array, "dtype", type(array).__name__)
        if str(dtype).rsplit(".")[-1] not in dtypes:
            raise TypeError(f"{name} is {dtype}; it must be {' or '.join(dtypes)}")
    rank = len(c.shape)
    if rank not in (2, 3) or len(a.shape) != rank or len(b.shape) != rank:
        raise ValueError(f"a, b, c have {len(a.shape)}, {len(b.shape)}, {rank} dims; all must have 2, or all 3")
    batch = c.shape[0] if rank == 3 else 1
    m, k = a.shape[-2:]
    k_b, n = b.shape[-2:]
    if k_b != k or tuple(c.shape[-2:]) != (m, n) or (rank == 3 and not a.shape[0] == b.shape[0] == batch):
        shapes = f"{tuple(a.shape)}, {tuple(b.shape)} and {tuple(c.shape)}"
        raise ValueError(f"a, b, c are {shapes}; they must be [M, K], [K, N] and [M, N], batches alike")
    grid = (-(-m // 64), -(-n // 64), batch)
    if grid[1] > 65535 or grid[2] > 65535:
        raise ValueError(f"grid {grid}: a launch has at most 65535 blocks along N and along Z")
    strides = []
    for array, order in ((a, (-2, -1)), (b, (-2, -1)), (c, (-2, -1))):
        strides += [array.stride(0) if rank == 3 else 0, *(array.stride(rank + dim) for dim in order)]
    return grid, (a, b, c, *strides, m, n, k)


def matmul(a, b, c):
    """c = a @ b on the device that holds the arrays; see launch_arguments. Returns c."""
    grid, arguments = launch_arguments(a, b, c)
    if all(grid):
        matmul_kernel[grid](*arguments, **OPTIONS)
    return c
