"""What the throughput model takes to be true of a card: the `model` section of a hardware profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from layoutgen.errors import LayoutgenError
from layoutgen.profiles.profile import DEFAULT, read_profile

CYCLES = ("tensor", "half", "fma", "fma_wide", "alu", "xu", "uniform")
LATENCIES = ("tensor", "xu", "shared", "shuffle", "global", "local", "special", "uniform", "barrier", "read")


@dataclass(frozen=True)
class Model:
    """Parameters of the throughput model, times in cycles.

    `cycles`: how long a warp instruction keeps its port; `latency`: from there until its result can be used (`barrier`:
    until a block goes on, `read`: until the operands of a queued instruction have been read). `queue_depth`: shared and
    global accesses that a sub-core can have waiting; `queue_delay`: from issue to the queue's head when it is empty;
    `shared_efficiency`: the share of clocks in which the shared-memory pipe moves a wavefront when it is never idle.
    `fitted` names the parameters that were fitted to measurements; every other one has a source of its own.
    """

    sub_cores: int
    register_unit: int
    cycles: Mapping[str, int]
    latency: Mapping[str, int]
    queue_depth: int
    queue_delay: int
    shared_efficiency: float
    fitted: tuple[str, ...]


@cache
def load_model(profile: str) -> Model:
    """Return the model of a profile, by its name or the path of its YAML file.

    >>> load_model("volta").cycles["tensor"]
    2

    Raises LayoutgenError when the profile has none, or when a parameter is missing or unknown.
    """
    data = read_profile(profile)
    if "model" not in data:
        raise LayoutgenError(f"profile {profile}: has no model section; add one, as {DEFAULT} has it")
    return parse_model(data["model"], profile)


def parse_model(data: Any, name: str) -> Model:
    """Return the model that plain data describe; `name` is for the messages."""
    fields = tuple(Model.__dataclass_fields__)
    if not isinstance(data, Mapping) or set(data) != set(fields):
        raise LayoutgenError(f"profile {name}: model must be exactly {', '.join(fields)}")
    for key, names in (("cycles", CYCLES), ("latency", LATENCIES)):
        if not isinstance(data[key], Mapping) or set(data[key]) != set(names):
            raise LayoutgenError(f"profile {name}: model.{key} must be exactly {', '.join(names)}")
        for entry, value in data[key].items():
            if not isinstance(value, int) or value < 0:
                raise LayoutgenError(f"profile {name}: model.{key}.{entry} is {value!r}; cycles are whole numbers >= 0")
    if not 0 < float(data["shared_efficiency"]) <= 1:
        raise LayoutgenError(
            f"profile {name}: model.shared_efficiency is {data['shared_efficiency']}; it lies in (0, 1]"
        )
    known = {*fields, *(f"latency.{entry}" for entry in LATENCIES), *(f"cycles.{entry}" for entry in CYCLES)}
    for parameter in data["fitted"]:
        if parameter not in known:
            raise LayoutgenError(f"profile {name}: model.fitted names {parameter}, which is no parameter")
    return Model(**{**data, "fitted": tuple(data["fitted"])})
