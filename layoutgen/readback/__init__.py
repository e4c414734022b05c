"""Reading an emitted file back: what its text says is proved in place of what was derived, masks for all lengths."""

from layoutgen.readback.source import check_literals, prove_source

__all__ = ["check_literals", "prove_source"]
