"""Gluon's BlockedLayout as a linear layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutgen.algebra.layout import LinearLayout, hardware_space
from layoutgen.algebra.space import Space, log2
from layoutgen.errors import LayoutgenError


@dataclass(frozen=True)
class Blocked:
    """The parameters of Gluon's BlockedLayout: per thread, per warp, per block, and the order, fastest dim first."""

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps_per_cta: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        rank = len(self.order)
        parts = (self.size_per_thread, self.threads_per_warp, self.warps_per_cta)
        if sorted(self.order) != list(range(rank)) or any(len(part) != rank for part in parts):
            raise LayoutgenError(
                f"blocked layout {self}: the order must name each of its dims once, and all parts must have as many"
            )

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """Return the layout of a tensor of this shape: threads tile it, registers repeat.

        Where the tensor is too small, excess threads replicate it and excess registers vanish, as in Triton.

        >>> Blocked((1, 2), (4, 8), (1, 1), (1, 0)).layout((4, 32)).bases["register"]
        [[0, 1], [0, 16]]
        """
        codomain = Space.of_shape(shape)
        filled = [0] * len(shape)
        limits = [log2(size, "shape") for size in shape]

        def take(counts: Sequence[int]) -> list[int]:
            columns = []
            for dim in self.order:
                for _ in range(log2(counts[dim], "blocked layout")):
                    fits = filled[dim] < limits[dim]
                    columns.append(1 << codomain.offsets[f"dim{dim}"] + filled[dim] if fits else 0)
                    filled[dim] += fits
            return columns

        registers, lanes, warps = (
            take(counts) for counts in (self.size_per_thread, self.threads_per_warp, self.warps_per_cta)
        )
        for dim in self.order:
            while filled[dim] < limits[dim]:
                registers.append(1 << codomain.offsets[f"dim{dim}"] + filled[dim])
                filled[dim] += 1
        registers = [column for column in registers if column]
        domain = hardware_space({"register": len(registers), "lane": len(lanes), "warp": len(warps)})
        return LinearLayout(domain, codomain, (*registers, *lanes, *warps))

    def __str__(self) -> str:
        parts = (self.size_per_thread, self.threads_per_warp, self.warps_per_cta, self.order)
        return "gl.BlockedLayout(" + ", ".join(str(list(part)) for part in parts) + ")"
