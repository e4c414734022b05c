"""What the fast design of attention can be asked for beside the product: which requests are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutgen.errors import LayoutgenError
from layoutgen.kernels.request import STATISTICS_DTYPE

if TYPE_CHECKING:
    from layoutgen.kernels.attention_fast import FastAttentionRequest

ALIGNMENTS = ("top-left", "bottom-right")
"""How queries and keys of different number are aligned: at the first of each, or at the last."""
MASK_DTYPES = ("bool", "uint8")
"""The dtypes of a mask: the first is that of a compilation for which nothing is said."""


WIDEST_WINDOW = 1 << 30
SOFTCAPS = (1e-6, 1000.0)
"""The least and the largest softcap: beyond, fp32 does not hold its factors, or scores are off by more than 2^-12."""


def check_features(request: FastAttentionRequest, dtype: str) -> None:
    """Refuse alignments, windows, caps and dtypes of the output that are none; `dtype` is that of Q, K and V."""
    window = request.window
    if request.alignment not in ALIGNMENTS:
        raise LayoutgenError(f"alignment {request.alignment!r}: must be one of {', '.join(ALIGNMENTS)}")
    if window is not None and (len(window) != 2 or min(window) < -1):
        raise LayoutgenError(
            f"window {','.join(map(str, window))}: must be two numbers, left and right, of keys that are seen "
            "beside a query's own, or -1 for all; for example 128,0"
        )
    if request.alignment != ALIGNMENTS[0] and not request.causal and window is None:
        raise LayoutgenError(f"alignment {request.alignment}: nothing is aligned without causal or a window")
    if window is not None and max(window) > WIDEST_WINDOW:
        raise LayoutgenError(
            f"window {','.join(map(str, window))}: must be at most {WIDEST_WINDOW} keys to a side, so that positions "
            "stay within 32 bits; -1 takes all"
        )
    if request.softcap is not None and not SOFTCAPS[0] <= request.softcap <= SOFTCAPS[1]:
        raise LayoutgenError(
            f"softcap {request.softcap}: must lie in {SOFTCAPS[0]}..{SOFTCAPS[1]}: its tanh is computed from an "
            "exponential, whose rounding a larger cap would carry into the scores; without softcap they are not bounded"
        )
    if request.out_dtype not in (None, dtype, STATISTICS_DTYPE):
        raise LayoutgenError(f"out_dtype {request.out_dtype!r}: must be one of {dtype}, {STATISTICS_DTYPE}")
