"""Obligations, certificates, and refutations with a witness."""

from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict, refutations, require
from layoutgen.proofs.tile import prove

__all__ = ["Certificate", "Obligation", "Refutation", "Verdict", "prove", "refutations", "require"]
