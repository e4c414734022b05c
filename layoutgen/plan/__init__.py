"""What a plan is: tiles, the moves between them, and what these cost."""

from layoutgen.plan.plan import Move, Plan, Tile
from layoutgen.plan.staging import Staging, stage

__all__ = ["Move", "Plan", "Staging", "Tile", "stage"]
