"""GF(2) linear maps between named spaces of bits, what conversions between them cost, and shared memory."""

from layoutgen.algebra.banks import Access, access, wavefronts
from layoutgen.algebra.blocked import Blocked
from layoutgen.algebra.conversion import Conversion, Kind, classify
from layoutgen.algebra.layout import LinearLayout, hardware_space
from layoutgen.algebra.space import HARDWARE, Space
from layoutgen.algebra.swizzle import Padding, Swizzle, best_padding, best_swizzle

__all__ = [
    "HARDWARE",
    "Access",
    "Blocked",
    "Conversion",
    "Kind",
    "LinearLayout",
    "Padding",
    "Space",
    "Swizzle",
    "access",
    "best_padding",
    "best_swizzle",
    "classify",
    "hardware_space",
    "wavefronts",
]
