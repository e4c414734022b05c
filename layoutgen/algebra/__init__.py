"""GF(2) linear maps between named spaces of bits, and what shared memory makes of them."""

from layoutgen.algebra.banks import Access, access, wavefronts
from layoutgen.algebra.blocked import Blocked
from layoutgen.algebra.layout import LinearLayout, hardware_space
from layoutgen.algebra.space import HARDWARE, Space

__all__ = ["HARDWARE", "Access", "Blocked", "LinearLayout", "Space", "access", "hardware_space", "wavefronts"]
