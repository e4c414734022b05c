"""One candidate: emitted, compiled and inspected. Runs in a process of its own, here or on another machine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from layoutgen.errors import LayoutgenError


def evaluate(request: Mapping[str, Any], arch: str, profile: str, clock_mhz: int) -> dict[str, Any]:
    """Return what the model says of a request, as plain data.

    `status` is "predicted", or "failed" with the `reason`. Only errors raised on purpose are results; others are bugs.
    """
    from layoutgen.api import Kernel
    from layoutgen.kernels import request_from_dict
    from layoutgen.sass.inspection import inspect
    from layoutgen.toolchain import compile_kernel, read_kernel

    wanted = request_from_dict(request)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = read_kernel(Kernel(wanted).write(folder))
            compiled = compile_kernel(file, arch)
            found = inspect(file, compiled, profile)
            predicted = found.predict(clock_mhz)
    except LayoutgenError as error:
        return {"status": "failed", "request": wanted.as_dict(), "reason": str(error)}
    return {
        "status": "predicted",
        "request": wanted.as_dict(),
        "triton": compiled.triton,
        "tflops": predicted.mean,
        "rates": list(found.rates(predicted.clock_mhz)),
        "low": predicted.low,
        "high": predicted.high,
        "bound_tflops": predicted.bound_tflops,
        "limited_by": found.ports.limiter,
        "registers": compiled.registers,
        "spill_bytes": compiled.spill_stores + compiled.spill_loads,
        "shared_bytes": compiled.shared_bytes,
        "blocks_per_sm": found.occupied.blocks,
        "warps_per_block": compiled.num_warps,
        "instructions_per_hmma": found.instructions_per_hmma,
    }
