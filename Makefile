# Each target sets up .venv by itself; `make demo` and `make test` are all a new machine needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all lint docs clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/clickloom demo

test: $(READY)
	$(BIN)/python -m pytest -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pydoclint --quiet features models pipeline
	$(BIN)/codespell features models pipeline tests docs configs README.md CHANGELOG.md CONTRIBUTING.md

clean:
	rm -rf .venv runs data build
