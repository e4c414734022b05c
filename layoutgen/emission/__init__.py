"""Emission: rendering of proved plans, atomic writes and the check for drift."""

from layoutgen.emission.files import drift, file_name, write_atomically
from layoutgen.emission.render import command, render

__all__ = ["command", "drift", "file_name", "render", "write_atomically"]
