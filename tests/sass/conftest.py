"""Kernels compiled once for all tests of the machine code."""

from pathlib import Path

import pytest

from layoutgen.sass import decode
from layoutgen.toolchain import compile_kernel, read_kernel

GENERATED = Path(__file__).parents[2] / "generated"


@pytest.fixture(scope="session")
def compiled():
    """(file name, arch) -> the kernel file and the compiled kernel."""
    made = {}

    def get(name, arch="sm_70"):
        if (name, arch) not in made:
            file = read_kernel(GENERATED / f"{name}.py")
            made[name, arch] = file, compile_kernel(file, arch)
        return made[name, arch]

    return get


@pytest.fixture(scope="session")
def program(compiled):
    """(file name, arch) -> the decoded program."""

    def get(name, arch="sm_70"):
        _, found = compiled(name, arch)
        return decode(found.kernel, found.arch, found.sass, found.cubin)

    return get
