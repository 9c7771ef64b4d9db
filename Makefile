# Each target sets up .venv by itself; `make demo` and `make test` are all a new machine needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-slow lint docs clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/clickloom demo

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell features models pipeline tests docs configs README.md CHANGELOG.md CONTRIBUTING.md

docs: $(READY)
	$(BIN)/python -m pipeline.config_docs > docs/configuration.md

clean:
	rm -rf .venv runs data build
