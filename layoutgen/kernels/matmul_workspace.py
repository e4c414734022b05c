"""What a fast matrix product takes beside A, B and C: 16-bit parts of fp32 operands, and partial sums of a split K.

An fp32 row x of A (or column of B) is s (hi + lo + rest): s is a power of two that brings the row's largest finite
element to [2^14, 2^15), hi is x / s rounded to fp16, and lo is what is left, rounded to fp16. Both roundings are to
nearest, and what the second leaves is at most 2^-23 of the element, or 2^-25 s where lo is subnormal, which is at most
2^-39 of the row's largest element. Then A B is the sum of lo hi, hi lo and hi hi, one product of three times the depth,
up to lo lo, which is at most 2^-22 |A| |B|, and the scales are undone in fp32 at the end.
"""

from __future__ import annotations

from layoutgen.errors import LayoutgenError
from layoutgen.kernels.request import STATISTICS_DTYPE, Array, contiguous

PRODUCTS = 3
"""Products of parts that one product of two-part operands takes."""
EXPONENT_DTYPE = "int32"
VECTOR_ELEMENTS = 16
"""Rows of parts are padded to whole multiples of so many elements, so that 16-byte vectors are aligned."""
MAX_SPLITS = 64
WORKSPACE = ("a_parts", "a_exponents", "b_parts", "b_exponents", "partials")
"""Arguments of a launch that hold what one kernel hands to the next."""


def checked_operands(wanted: str | None, own: str) -> str | None:
    """Return the dtype of A and B where it is not that of the atom, `own`. Raises LayoutgenError on one that is none.

    >>> checked_operands("float16", "float16"), checked_operands("float32", "float16")
    (None, 'float32')
    """
    if wanted in (None, own):
        return None
    if wanted == STATISTICS_DTYPE:
        return wanted
    raise LayoutgenError(
        f"operand_dtype {wanted!r}: the instruction multiplies {own}, and {STATISTICS_DTYPE} as two parts of it; "
        f"convert A and B to one of these, or take {STATISTICS_DTYPE}, whose range is that of bfloat16"
    )


def check_split_k(splits: int) -> None:
    if not 1 <= splits <= MAX_SPLITS:
        nearest = min(max(splits, 1), MAX_SPLITS)
        raise LayoutgenError(
            f"split_k = {splits}: must be 1, for no split, to {MAX_SPLITS}; the nearest legal value is {nearest}"
        )


def padded(size: int, multiple: int) -> int:
    """Return the next multiple that is not less than a size.

    >>> padded(33, 16), padded(0, 16)
    (48, 0)
    """
    return -(-size // multiple) * multiple


def workspace(
    shape: tuple[int, ...], a_order: str, b_order: str, block_k: int, parts: str | None, split_k: int
) -> dict[str, Array]:
    """Return the arrays of the workspace for a shape Z, M, N, K: contiguous, and whatever they hold before.

    `parts` is the dtype of the parts of A and B, None when these are multiplied as they are.

    >>> list(workspace((1, 64, 64, 64), "mk", "kn", 32, None, 4))
    ['partials']
    """
    batch, m, n, k = shape
    found = {}
    if parts is not None:
        depth = PRODUCTS * padded(k, block_k)
        for name, order, rows in (("a", a_order, m), ("b", b_order, n)):
            along_k = order[-1] == "k"
            part = (batch, rows, depth) if along_k else (batch, depth, padded(rows, VECTOR_ELEMENTS))
            found[f"{name}_parts"] = contiguous(part, parts)
            found[f"{name}_exponents"] = contiguous((batch, rows), EXPONENT_DTYPE)
    if split_k > 1:
        found["partials"] = contiguous((batch, split_k, m, n), STATISTICS_DTYPE)
    return found
