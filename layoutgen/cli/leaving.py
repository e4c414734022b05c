"""Leaving a process in which Triton was loaded."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def leave(status: object) -> NoReturn:
    """End the process with an exit status; at once if Triton was loaded.

    Triton's bindings print a page of reference counts when the interpreter shuts down in the usual way.
    """
    if "triton" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))
    sys.exit(status if isinstance(status, int | str) else None)
