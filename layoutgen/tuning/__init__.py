"""The search for the best kernel: candidates, pruned by exact counts, compiled in parallel, ranked by prediction."""

from layoutgen.tuning.cache import Cache
from layoutgen.tuning.candidates import Candidate, candidates
from layoutgen.tuning.search import Tuned, tune

__all__ = ["Cache", "Candidate", "Tuned", "candidates", "tune"]
