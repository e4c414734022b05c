"""Leaving a process in which Triton was loaded."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn


def leave(status: object) -> NoReturn:
    """End the process with an exit status; at once if Triton was loaded.

    Triton's bindings print a page of reference counts when the interpreter shuts down in the usual way.
    """
    if "triton" in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by the caller
                with contextlib.suppress(OSError):
                    stream.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))
    sys.exit(status if isinstance(status, int | str) else None)
