"""How busy a loop keeps each port, and the bound that follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from layoutgen.profiles.model import Model
from layoutgen.sass.occupancy import Occupancy
from layoutgen.sass.pricing import Price
from layoutgen.sass.program import Instruction

SHARED_BY_SM = ("lsu",)


@dataclass(frozen=True)
class Ports:
    """Cycles per iteration, of one warp and of all warps that share the port.

    `per_warp` says how long a warp keeps each port; `issue` are its issue slots. `busy` are the same for all resident
    warps of a sub-core, or of the SM for `lsu`, whose cycles count wavefronts as if the pipe moved one every clock.
    """

    per_warp: Mapping[str, float]
    busy: Mapping[str, float]

    @property
    def bound(self) -> float:
        """The fewest cycles in which all resident warps can finish an iteration."""
        return max(self.busy.values())

    @property
    def limiter(self) -> str:
        """The port that sets the bound."""
        return max(self.busy, key=lambda port: self.busy[port])


def ports(priced: Mapping[int, Price], body: tuple[Instruction, ...], occupied: Occupancy, model: Model) -> Ports:
    """Add up the prices of a loop's body. `priced` maps addresses to prices; what has no price is not counted."""
    per_warp: dict[str, float] = defaultdict(float, issue=len(body))
    for found in priced.values():
        cycles = found.cycles * model.shared_efficiency if found.pipe == "shared" else found.cycles
        if found.port != "none":
            per_warp[found.port] += cycles
    busy = {
        port: cycles * (occupied.warps if port in SHARED_BY_SM else occupied.warps_per_sub_core)
        for port, cycles in per_warp.items()
    }
    return Ports(dict(per_warp), busy)
