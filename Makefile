# Every target makes the environment it needs; Python >= 3.10 is all that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Triton warns once about a default of its own; every emitted kernel states its choice.
export TRITON_DEFAULT_FP_FUSION ?= 1

.PHONY: demo test lint check sweep bench generated gpu clean

demo: $(VENV)/.layoutgen
	$(BIN)/python tools/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

# Hours. It can be stopped: .sweep.jsonl says what is done, and the next `make sweep` goes on while the code is the same.
# `make sweep SWEEP=tests/kernels` runs a part.
sweep: $(VENV)/.test
	LAYOUTGEN_SWEEP=.sweep.jsonl $(BIN)/python -m pytest -m sweep $(SWEEP)

bench: $(VENV)/.layoutgen
	$(BIN)/python tools/bench.py
	$(BIN)/python tools/bench_algebra.py

generated: $(VENV)/.layoutgen
	$(BIN)/layoutgen emit all -o generated

gpu: $(VENV)/.test
	$(BIN)/python -m pytest -m gpu

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.layoutgen: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: $(VENV)/.layoutgen
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
