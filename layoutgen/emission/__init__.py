"""Emission: rendering of proved plans, atomic writes and the check for drift."""

from layoutgen.emission.files import check_writable, describe, drift, file_name, write_atomically
from layoutgen.emission.render import command, environment, layout_literals, render

__all__ = [
    "check_writable",
    "command",
    "describe",
    "drift",
    "environment",
    "file_name",
    "layout_literals",
    "render",
    "write_atomically",
]
