"""Matrix product: A [M, K] by B [N, K], tiles of 128x128x32.

Tensor-core products of 8x8x4 (SM70_8x8x4_F32F16F16F32_TN), 2x2 warps; operands float16,
accumulated in float32, C in float16; any strides, any sizes.

Emitted by layoutgen 0.1.0 from template matmul_fast.py.jinja (b3b2652d8450).
Do not edit; regenerate it with

    layoutgen emit matmul --design fast --block-m 128 --block-n 128 --block-k 32 --warps 2x2 \
        --a-order mk --b-order nk --atom m8n8k4
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# What was asked for, how it is compiled, and the types of the kernel's parameters as they come from contiguous arrays.
# Fusion of multiplications and additions is chosen here because Triton's own default differs between versions.
REQUEST = {
    "kernel": "matmul",
    "design": "fast",
    "atom": "SM70_8x8x4_F32F16F16F32_TN",
    "block_m": 128,
    "block_n": 128,
    "block_k": 32,
    "warps": "2x2",
    "b_order": "nk",
    "out_dtype": "float16",
    "arrangement": "n2,m2",
    "a_order": "mk",
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
    "vectors": "constexpr",
    "whole": "constexpr",
    "wide": "constexpr",
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
            [0, 8],  # v2: n3
            [0, 32],  # nb1: n5
            [0, 64],  # nb2: n6
            [32, 0],  # mb1: m5
        ],
        lane_bases=[
            [1, 0],  # a0: m0
            [0, 2],  # a1: n1
            [0, 4],  # q0: n2
            [4, 0],  # q1: m2
            [8, 0],  # b: m3
        ],
        warp_bases=[
            [16, 0],  # mb0: m4
            [0, 16],  # nb0: n4
        ],
        block_bases=[],
        shape=[64, 128],
    )
)


# MATRIX_C, cut into dims along which each operand is a broadcast.
ACCUMULATOR_C = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 0, 0, 0, 0, 0, 1],  # v0: n0
            [0, 0, 0, 2, 0, 0, 0, 0, 0],  # v1: m1
            [0, 0, 0, 0, 0, 1, 0, 0, 0],  # v2: n3
            [0, 0, 0, 0, 2, 0, 0, 0, 0],  # nb1: n5
            [0, 0, 0, 0, 4, 0, 0, 0, 0],  # nb2: n6
            [2, 0, 0, 0, 0, 0, 0, 0, 0],  # mb1: m5
        ],
        lane_bases=[
            [0, 0, 0, 1, 0, 0, 0, 0, 0],  # a0: m0
            [0, 0, 0, 0, 0, 0, 0, 1, 0],  # a1: n1
            [0, 0, 0, 0, 0, 0, 1, 0, 0],  # q0: n2
            [0, 0, 1, 0, 0, 0, 0, 0, 0],  # q1: m2
            [0, 1, 0, 0, 0, 0, 0, 0, 0],  # b: m3
        ],
        warp_bases=[
            [1, 0, 0, 0, 0, 0, 0, 0, 0],  # mb0: m4
            [0, 0, 0, 0, 1, 0, 0, 0, 0],  # nb0: n4
        ],
        block_bases=[],
        shape=[4, 2, 2, 4, 8, 2, 2, 2, 2],
    )
)


# A tile of A as it is loaded, [m, k].
TILE_A = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # e0: k0
            [0, 2],  # e1: k1
            [0, 4],  # e2: k2
            [32, 0],  # e3: m5
            [64, 0],  # e4: m6
        ],
        lane_bases=[
            [1, 0],  # l0: m0
            [2, 0],  # l1: m1
            [0, 8],  # l2: k3
            [0, 16],  # l3: k4
            [4, 0],  # l4: m2
        ],
        warp_bases=[
            [8, 0],  # w0: m3
            [16, 0],  # w1: m4
        ],
        block_bases=[],
        shape=[128, 32],
    )
)


# What one fetch of A reads: the groups g, vectors v, rows r and words w of its part of the buffer.
FRAGMENT_A = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 1],  # v1: w0
            [0, 0, 0, 2],  # s0: w1
            [8, 0, 0, 0],  # mb1: g3
        ],
        lane_bases=[
            [0, 0, 1, 0],  # a0: r0
            [0, 0, 2, 0],  # a1: r1
            [0, 0, 0, 0],  # q0: free
            [1, 0, 0, 0],  # q1: g0
            [2, 0, 0, 0],  # b: g1
        ],
        warp_bases=[
            [4, 0, 0, 0],  # mb0: g2
            [0, 0, 0, 0],  # nb0: free
        ],
        block_bases=[],
        shape=[16, 1, 4, 4],
    )
)


# A tile of B as it is loaded, [n, k].
TILE_B = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],  # e0: k0
            [0, 2],  # e1: k1
            [0, 4],  # e2: k2
            [32, 0],  # e3: n5
            [64, 0],  # e4: n6
        ],
        lane_bases=[
            [1, 0],  # l0: n0
            [2, 0],  # l1: n1
            [4, 0],  # l2: n2
            [0, 8],  # l3: k3
            [0, 16],  # l4: k4
        ],
        warp_bases=[
            [8, 0],  # w0: n3
            [16, 0],  # w1: n4
        ],
        block_bases=[],
        shape=[128, 32],
    )
)


# What one fetch of B reads: the groups g, vectors v, rows r and words w of its part of the buffer.
FRAGMENT_B = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[
            [0, 0, 0, 1],  # v1: w0
            [0, 0, 0, 2],  # s0: w1
            [4, 0, 0, 0],  # nb1: g2
            [8, 0, 0, 0],  # nb2: g3
        ],
        lane_bases=[
            [0, 0, 1, 0],  # a0: r0
            [0, 0, 2, 0],  # a1: r1
            [0, 0, 4, 0],  # q0: r2
            [0, 0, 0, 0],  # q1: free
            [1, 0, 0, 0],  # b: g0
        ],
        warp_bases=[
            [0, 0, 0, 0],  # mb0: free
            [2, 0, 0, 0],  # nb0: g1
        ],
        block_bases=[],
        shape=[16, 1, 8, 4],
    )
)


# Buffers keep 16 bytes of a row of a tile together, as [groups of rows, vectors of a row, rows of a group, elements].
# A: a warp stores a tile in 4 x 128 bits, 16 wavefronts (16 at least), and fetches 2 x 128 bits in 8 (8).
# B: a warp stores a tile in 4 x 128 bits, 16 wavefronts (16 at least), and fetches 4 x 128 bits in 16 (16).
BUFFER = gl.constexpr(gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[3, 2, 1, 0]))
PUBLIC = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))  # from Triton 3.9 on


@gluon.jit
def as_words(buffer, shape: gl.constexpr):
    """Look at a buffer of 16-bit elements as one of 32-bit words."""
    if PUBLIC:
        return buffer.reinterpret(gl.int32, shape, BUFFER)
    else:
        return buffer._reinterpret(gl.int32, shape, BUFFER)


@gluon.jit
def mma(accumulator, a, b):
    """accumulator += a @ b for one k-step; register r of all three goes to the instruction together.

    A call takes 8 accumulators of a thread; an operand arrives as 8 words, of which two neighbours
    are alike, and 2 hold its 4 elements.
    Along dims of size 1 an operand is broadcast to the accumulator's shape, which copies nothing.
    """
    return gl.inline_asm_elementwise(
        asm="mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 "
        "{$0, $1, $2, $3, $4, $5, $6, $7}, {$8, $10}, {$16, $18}, {$0, $1, $2, $3, $4, $5, $6, $7};",
        constraints="=f,=f,=f,=f,=f,=f,=f,=f,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,0,1,2,3,4,5,6,7",
        args=[a, b, accumulator],
        dtype=gl.float32,
        is_pure=True,
        pack=8,
    )


@gluon.jit
def load_a(pointer):
    """Load a tile of A, all of its k within the matrix. Its rows beyond repeat the last one."""
    return gl.load(pointer)


@gluon.jit
def store_a(buffer, tile):
    buffer.store(tile.reshape([32, 4, 4, 8]).permute([0, 2, 1, 3]))


@gluon.jit
def fetch_a(words, step, part):
    """Fetch the fragments of k-steps 2 * step and 2 * step + 1, of one part of the rows."""
    words = words.slice(16 * part, 16, dim=0)
    fragment = words.slice(step, 1, dim=1).load(FRAGMENT_A)
    return fragment.reshape([64, 2, 2]).permute([0, 2, 1]).split()


@gluon.jit
def operand_a(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([16, 2, 2, 2])
    fragment = fragment.permute([0, 3, 2, 1])
    fragment = fragment.reshape([4, 2, 2, 4, 1, 1, 1, 2, 1])
    return gl.convert_layout(fragment, ACCUMULATOR_C, assert_trivial=True)


@gluon.jit
def load_b(pointer):
    """Load a tile of B, all of its k within the matrix. Its columns beyond repeat the last one."""
    return gl.load(pointer)


@gluon.jit
def store_b(buffer, tile):
    buffer.store(tile.reshape([16, 8, 4, 8]).permute([0, 2, 1, 3]))


@gluon.jit
def fetch_b(words, step):
    """Fetch the fragments of k-steps 2 * step and 2 * step + 1, of all columns."""
    fragment = words.slice(step, 1, dim=1).load(FRAGMENT_B)
    return fragment.reshape([128, 2, 2]).permute([0, 2, 1]).split()


@gluon.jit
def operand_b(fragment):
    """Relabel a fragment as a broadcast operand: it already lies where the accumulator needs it. Moves no data."""
    fragment = fragment.reshape([8, 2, 4, 2, 2])
    fragment = fragment.permute([1, 4, 3, 0, 2])
    fragment = fragment.reshape([1, 2, 1, 4, 8, 1, 2, 2, 1])
    return gl.convert_layout(fragment, ACCUMULATOR_C, assert_trivial=True)


@gluon.jit
def zeros():
    """The accumulator of one part of the block, empty."""
    return gl.zeros([4, 2, 2, 4, 8, 2, 2, 2, 2], gl.float32, layout=ACCUMULATOR_C)


@gluon.jit
def multiply(product, a0, a1, b0, b1):
    """product += two k-steps."""
    product = mma(product, operand_a(a0), operand_b(b0))
    return mma(product, operand_a(a1), operand_b(b1))


@gluon.jit
def in_vectors(size):
    """A multiple of 8, as it is, but so that the compiler knows."""
    return size // 8 * 8


@gluon.jit
def store_part(
    product,
    row,
    column,
    m,
    n,
    c,
    stride_cm,
    stride_cn,
):
    """Store one part of C = A B."""
    inside = (row < m) & (column < n)
    row = row.to(gl.int64)
    column = column.to(gl.int64)
    x = gl.convert_layout(product.reshape([64, 128]), MATRIX_C, assert_trivial=True)
    gl.store(c + row * stride_cm + column * stride_cn, x.to(gl.float16), mask=inside)


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
    vectors: gl.constexpr,
    whole: gl.constexpr,
    wide: gl.constexpr,
):
    """One block computes C[z, 128 rows, 128 columns] = A B.

    `whole` says that no tile reaches beyond the matrices along a dim of whole vectors; `wide` that an offset within a
    tile can take more than 32 bits.
    `vectors` says that sizes and strides are multiples of 8 and that the compiler does not know it.
    """
    row = gl.program_id(0) * 128
    column = gl.program_id(1) * 128
    batch = gl.program_id(2).to(gl.int64)
    if vectors:
        stride_az = in_vectors(stride_az)
        stride_bz = in_vectors(stride_bz)
        stride_am = in_vectors(stride_am)
        stride_bn = in_vectors(stride_bn)
    if wide:
        stride_am = gl.to_tensor(stride_am).to(gl.int64)
        stride_ak = gl.to_tensor(stride_ak).to(gl.int64)
        stride_bk = gl.to_tensor(stride_bk).to(gl.int64)
        stride_bn = gl.to_tensor(stride_bn).to(gl.int64)

    a_row = gl.arange(0, 128, layout=gl.SliceLayout(1, TILE_A))[:, None]
    a_k = gl.arange(0, 32, layout=gl.SliceLayout(0, TILE_A))[None, :]
    a_row = gl.minimum(a_row, m - 1 - row)
    a += batch * stride_az + row.to(gl.int64) * stride_am
    a_pointer = a + a_row * stride_am + a_k * stride_ak  # in this order the last sum is an immediate
    b_column = gl.arange(0, 128, layout=gl.SliceLayout(1, TILE_B))[:, None]
    b_k = gl.arange(0, 32, layout=gl.SliceLayout(0, TILE_B))[None, :]
    b_column = gl.minimum(b_column, n - 1 - column)
    b += batch * stride_bz + column.to(gl.int64) * stride_bn
    b_pointer = b + b_column * stride_bn + b_k * stride_bk  # in this order the last sum is an immediate
    a_buffer0 = gl.allocate_shared_memory(gl.float16, [32, 4, 4, 8], BUFFER)
    a_words0 = as_words(a_buffer0, [32, 4, 4, 4])
    a_buffer1 = gl.allocate_shared_memory(gl.float16, [32, 4, 4, 8], BUFFER)
    a_words1 = as_words(a_buffer1, [32, 4, 4, 4])
    b_buffer0 = gl.allocate_shared_memory(gl.float16, [16, 4, 8, 8], BUFFER)
    b_words0 = as_words(b_buffer0, [16, 4, 8, 4])
    b_buffer1 = gl.allocate_shared_memory(gl.float16, [16, 4, 8, 8], BUFFER)
    b_words1 = as_words(b_buffer1, [16, 4, 8, 4])

    # The last K tile comes first: it alone may reach beyond K, where both operands count as zero.
    more = gl.maximum((k + 31) // 32 - 1, 0)  # tiles beside it, all of them whole
    left = k - more * 32
    skipped = (more * 32).to(gl.int64)
    a_tile = gl.load(a_pointer + skipped * stride_ak, mask=(a_k < left) & (row + a_row < m), other=0.0)
    store_a(a_buffer0, a_tile)
    b_tile = gl.load(b_pointer + skipped * stride_bk, mask=(b_k < left) & (column + b_column < n), other=0.0)
    store_b(b_buffer0, b_tile)
    gl.barrier()
    product0 = zeros()
    product1 = zeros()
    a0, a1 = fetch_a(a_words0, 0, 0)
    b0, b1 = fetch_b(b_words0, 0)
    for _ in range(0, more // 2):
        a_pointer_next = a_pointer + 32 * stride_ak
        b_pointer_next = b_pointer + 32 * stride_bk
        a_tile = load_a(a_pointer)
        next_a0, next_a1 = fetch_a(a_words0, 0, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 1, 0)
        next_b0, next_b1 = fetch_b(b_words0, 1)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words0, 1, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 2, 0)
        next_b0, next_b1 = fetch_b(b_words0, 2)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        store_a(a_buffer1, a_tile)
        b_tile = load_b(b_pointer)
        next_a0, next_a1 = fetch_a(a_words0, 2, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 3, 0)
        next_b0, next_b1 = fetch_b(b_words0, 3)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        store_b(b_buffer1, b_tile)
        next_a0, next_a1 = fetch_a(a_words0, 3, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        gl.barrier()  # buffers 1 are filled, and all has been read from buffers 0
        next_a0, next_a1 = fetch_a(a_words1, 0, 0)
        next_b0, next_b1 = fetch_b(b_words1, 0)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        a_tile = load_a(a_pointer_next)
        next_a0, next_a1 = fetch_a(a_words1, 0, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words1, 1, 0)
        next_b0, next_b1 = fetch_b(b_words1, 1)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words1, 1, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words1, 2, 0)
        next_b0, next_b1 = fetch_b(b_words1, 2)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        store_a(a_buffer0, a_tile)
        b_tile = load_b(b_pointer_next)
        next_a0, next_a1 = fetch_a(a_words1, 2, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words1, 3, 0)
        next_b0, next_b1 = fetch_b(b_words1, 3)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        store_b(b_buffer0, b_tile)
        next_a0, next_a1 = fetch_a(a_words1, 3, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        gl.barrier()  # buffers 0 are filled, and all has been read from buffers 1
        next_a0, next_a1 = fetch_a(a_words0, 0, 0)
        next_b0, next_b1 = fetch_b(b_words0, 0)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        a_pointer += 64 * stride_ak
        b_pointer += 64 * stride_bk
    if more % 2 == 1:
        a_tile = load_a(a_pointer)
        next_a0, next_a1 = fetch_a(a_words0, 0, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 1, 0)
        next_b0, next_b1 = fetch_b(b_words0, 1)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words0, 1, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 2, 0)
        next_b0, next_b1 = fetch_b(b_words0, 2)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        store_a(a_buffer1, a_tile)
        b_tile = load_b(b_pointer)
        next_a0, next_a1 = fetch_a(a_words0, 2, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 3, 0)
        next_b0, next_b1 = fetch_b(b_words0, 3)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        store_b(b_buffer1, b_tile)
        next_a0, next_a1 = fetch_a(a_words0, 3, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        gl.barrier()  # buffers 1 are filled, and all has been read from buffers 0
        next_a0, next_a1 = fetch_a(a_words1, 0, 0)
        next_b0, next_b1 = fetch_b(b_words1, 0)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words1, 0, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words1, 1, 0)
        next_b0, next_b1 = fetch_b(b_words1, 1)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words1, 1, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words1, 2, 0)
        next_b0, next_b1 = fetch_b(b_words1, 2)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words1, 2, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words1, 3, 0)
        next_b0, next_b1 = fetch_b(b_words1, 3)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words1, 3, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        product1 = multiply(product1, a0, a1, b0, b1)
    else:
        next_a0, next_a1 = fetch_a(a_words0, 0, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 1, 0)
        next_b0, next_b1 = fetch_b(b_words0, 1)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words0, 1, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 2, 0)
        next_b0, next_b1 = fetch_b(b_words0, 2)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words0, 2, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        next_a0, next_a1 = fetch_a(a_words0, 3, 0)
        next_b0, next_b1 = fetch_b(b_words0, 3)
        product1 = multiply(product1, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        b0, b1 = next_b0, next_b1
        next_a0, next_a1 = fetch_a(a_words0, 3, 1)
        product0 = multiply(product0, a0, a1, b0, b1)
        a0, a1 = next_a0, next_a1
        product1 = multiply(product1, a0, a1, b0, b1)

    c_row = row + gl.arange(0, 64, layout=gl.SliceLayout(1, MATRIX_C))[:, None]
    c_column = column + gl.arange(0, 128, layout=gl.SliceLayout(0, MATRIX_C))[None, :]
    c += batch * stride_cz
    store_part(
        product0,
        c_row,
        c_column,
        m,
        n,
        c,
        stride_cm,
        stride_cn,
    )
    store_part(
        product1,
        c_row + 64,
        c_column,
        m,
        n,
        c,
        stride_cm,
        stride_cn,
    )


def launch_arguments(a, b, c):
    """Check the arrays and return the grid and the kernel's arguments.

    a is [M, K] or [Z, M, K], b [N, K] or [Z, N, K], c [M, N] or [Z, M, N]; strides are free, and fastest where the
    last dim of a and b is contiguous. a and b are float16, c is float16. Raises TypeError or ValueError on anything
    else.
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
    n, k_b = b.shape[-2:]
    if k_b != k or tuple(c.shape[-2:]) != (m, n) or (rank == 3 and not a.shape[0] == b.shape[0] == batch):
        shapes = f"{tuple(a.shape)}, {tuple(b.shape)} and {tuple(c.shape)}"
        raise ValueError(f"a, b, c are {shapes}; they must be [M, K], [N, K] and [M, N], batches alike")
    grid = (-(-m // 128), -(-n // 128), batch)
    if grid[1] > 65535 or grid[2] > 65535:
        raise ValueError(f"grid {grid}: a launch has at most 65535 blocks along N and along Z")
    strides = []
    for array, order in ((a, (-2, -1)), (b, (-1, -2)), (c, (-2, -1))):
        strides += [array.stride(0) if rank == 3 else 0, *(array.stride(rank + dim) for dim in order)]
    sizes = (strides[0], strides[3], strides[1], strides[5])
    vectors = all(size % 8 == 0 for size in sizes) and any(size % 16 for size in sizes)
    whole = True
    furthest = max(128 * abs(strides[1]) + 64 * abs(strides[2]), 64 * abs(strides[4]) + 128 * abs(strides[5]))
    return grid, (a, b, c, *strides, m, n, k, vectors, whole, furthest >= 2**31)


def matmul(a, b, c):
    """C = A B.

    On the device that holds the arrays; see launch_arguments. Returns c.
    """
    grid, arguments = launch_arguments(a, b, c)
    if all(grid):
        matmul_kernel[grid](*arguments, **OPTIONS)
    return c
