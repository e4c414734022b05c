"""How many blocks an SM holds at once, and what keeps it from holding more."""

from __future__ import annotations

from dataclasses import dataclass

from layoutgen.errors import LayoutgenError
from layoutgen.profiles import Limits

WARP = 32


@dataclass(frozen=True)
class Occupancy:
    """Blocks an SM holds, and what each resource alone would allow. `limiters` are those that allow the fewest."""

    warps_per_block: int
    by_registers: int
    by_shared: int
    by_warps: int
    sub_cores: int

    @property
    def blocks(self) -> int:
        return min(self.by_registers, self.by_shared, self.by_warps)

    @property
    def warps(self) -> int:
        return self.blocks * self.warps_per_block

    @property
    def warps_per_sub_core(self) -> float:
        return self.warps / self.sub_cores

    @property
    def limiters(self) -> tuple[str, ...]:
        allowed = {"registers": self.by_registers, "shared memory": self.by_shared, "warps": self.by_warps}
        return tuple(name for name, blocks in allowed.items() if blocks == self.blocks)

    def __str__(self) -> str:
        return (
            f"{self.blocks} blocks of {self.warps_per_block} warps an SM, {self.warps_per_sub_core:g} warps a "
            f"sub-core; registers allow {self.by_registers}, shared memory {self.by_shared}, warps {self.by_warps}"
        )


def occupancy(
    registers: int, shared_bytes: int, num_warps: int, limits: Limits, *, register_unit: int = 256, sub_cores: int = 4
) -> Occupancy:
    """Return the occupancy of a kernel: registers a thread, shared bytes a block, warps a block.

    Registers are allocated per warp in units of `register_unit`, and each sub-core has its own quarter of them.

    >>> from layoutgen.profiles import load_profile
    >>> print(occupancy(164, 28672, 4, load_profile("volta").limits))
    3 blocks of 4 warps an SM, 3 warps a sub-core; registers allow 3, shared memory 3, warps 16

    Raises LayoutgenError when not even one block fits.
    """
    per_warp = -(-registers * WARP // register_unit) * register_unit
    warps_by_registers = limits.registers_per_sm // sub_cores // per_warp * sub_cores
    found = Occupancy(
        num_warps,
        warps_by_registers // num_warps,
        limits.shared_bytes_per_sm // shared_bytes if shared_bytes else limits.warps_per_sm,
        limits.warps_per_sm // num_warps,
        sub_cores,
    )
    if found.blocks < 1:
        raise LayoutgenError(
            f"occupancy: a block of {num_warps} warps with {registers} registers a thread and {shared_bytes} bytes of "
            f"shared memory does not fit: the SM has {limits.registers_per_sm} registers, "
            f"{limits.shared_bytes_per_sm} bytes and {limits.warps_per_sm} warps ({found.limiters[0]} allow none); "
            "halve a block size"
        )
    return found
