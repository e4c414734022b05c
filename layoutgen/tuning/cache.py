"""Results on disk, one file per candidate, so that a search can stop at any time and go on later.

An entry's name is a digest of everything that the result rests on: the request, the templates, the code and the model
that made the prediction, Triton's version, the architecture and the clock. What changes any of these finds no entry.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import layoutgen
from layoutgen.emission import write_atomically
from layoutgen.emission.render import template_directory
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import Request, request_from_dict
from layoutgen.tuning.candidates import Candidate, Refused, candidates

OTHER_ROOMS = ("cli", "readback", "execution", "probing")
"""Rooms whose code decides no prediction."""


def default_folder() -> Path:
    """Return the folder of the cache: LAYOUTGEN_CACHE, else layoutgen in the user's cache folder."""
    given = os.environ.get("LAYOUTGEN_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "layoutgen" / "tune"


@cache
def code_digest(left_out: tuple[str, ...] = OTHER_ROOMS) -> str:
    """Return a digest of the code, the profiles and the templates, but for the rooms left out."""
    package = Path(layoutgen.__file__).parent
    files = [
        file
        for file in package.rglob("*")
        if file.suffix in (".py", ".yml", ".txt") and file.relative_to(package).parts[0] not in left_out
    ]
    digest = hashlib.sha256()
    for file in (*sorted(files), *sorted(template_directory().glob("*.jinja"))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Cache:
    """Results by request, for one profile, architecture and clock."""

    folder: Path
    profile: str
    arch: str
    clock_mhz: int

    def key(self, request: Request) -> str:
        """Return the name of a request's entry."""
        return _digest({"request": request.as_dict()} | self._everything())

    def _everything(self) -> dict[str, Any]:
        """What a result rests on, beside its request."""
        profile = self.profile
        if profile.endswith((".yml", ".yaml")):  # its content is not among the code
            profile = hashlib.sha256(Path(profile).read_bytes()).hexdigest()
        return {
            "code": code_digest(),
            "triton": version("triton"),
            "profile": profile,
            "arch": self.arch,
            "clock_mhz": self.clock_mhz,
        }

    def get(self, request: Request) -> dict[str, Any] | None:
        """Return the result of a request, or None. A damaged entry counts as none."""
        return self._read(self.folder / f"{self.key(request)}.json")

    def candidates(self, family: str, fixed: Mapping[str, Any]) -> tuple[tuple[Candidate, ...], tuple[Refused, ...]]:
        """Return `candidates.candidates`, which is slow, from the folder if it was asked before."""
        asked = {"family": family, "fixed": dict(fixed)} | self._everything()
        path = self.folder / f"candidates-{_digest(asked)}.json"
        if (data := self._read(path)) is not None:
            known = (Candidate(request_from_dict(e["request"]), e["bound"], e["wavefronts"]) for e in data["found"])
            return tuple(known), tuple(Refused(**entry) for entry in data["refused"])
        found, refused = candidates(family, self.profile, fixed, self.clock_mhz)
        kept = {
            "found": [{"request": c.request.as_dict(), "bound": c.bound, "wavefronts": c.wavefronts} for c in found],
            "refused": [vars(entry) for entry in refused],
        }
        self._write(path, kept)
        return found, refused

    def put(self, request: Request, result: Mapping[str, Any]) -> None:
        """Store a result, whole or not at all."""
        self._write(self.folder / f"{self.key(request)}.json", result)

    def _read(self, path: Path) -> dict[str, Any] | None:
        """Return what `_write` wrote, or None: of a file that is missing, cut short or changed."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            data, digest = dict(found["data"]), found["digest"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return data if digest == _digest(data) else None

    def _write(self, path: Path, data: Mapping[str, Any]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LayoutgenError(f"cache {self.folder}: {(error.strerror or str(error)).lower()}") from error
        sealed = {"data": dict(data), "digest": _digest(data)}
        write_atomically(path, json.dumps(sealed, indent=1, sort_keys=True))


def _digest(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(data), sort_keys=True).encode()).hexdigest()[:32]
