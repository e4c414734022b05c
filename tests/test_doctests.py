"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil

import pytest

import layoutgen

PACKAGES = pkgutil.walk_packages(layoutgen.__path__, "layoutgen.")
MODULES = [module.name for module in PACKAGES if module.name != "layoutgen.__main__"]


@pytest.mark.parametrize("name", ["layoutgen", *MODULES])
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
