# Every target builds .venv itself when it is missing or older than the project's requirements.
PYTHON ?= python3
BIN := .venv/bin
# One worker for each core; whoever is idle takes tests from the other.
SPREAD := --numprocesses auto --dist worksteal

.PHONY: demo test test-compiled test-plain test-spark lint bench docs clean

demo: .venv/ready
	$(BIN)/maillard reproduce

test: lint test-plain test-compiled

# The tests compile everything themselves, whatever the user's own cache holds.
test-compiled: export MAILLARD_CACHE_DIR := $(CURDIR)/.venv/cache/maillard

# The compiled run comes last: its summary is the one that counts.
test-compiled: .venv/ready
	$(BIN)/python -m pytest $(SPREAD)

test-plain: .venv/ready
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(SPREAD) -m "not slow"

# Evaluation where the log lies, on Spark too: 450 MB more, and Java 17 or later.
test-spark: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[spark]'
	$(BIN)/python -m pytest tests/test_pushdown.py

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Other packages are installed, each into an environment of its own; writes docs/benchmarks.md.
bench: .venv/ready
	$(BIN)/python benchmarks/page.py

docs: .venv/ready
	$(BIN)/python docs/build.py

clean:
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev]'
	touch $@
