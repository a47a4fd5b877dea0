# The two that matter: `make demo` and `make test`. Everything they need is set up on the way, in .venv and target, and
# nothing is done twice: each step leaves a stamp in .venv that depends on what the step read.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python

# Where rustup puts cargo; a shell that was open while it was installed does not look there yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

# What the extension is made from. A library that is newer than the stamp was built by hand, perhaps in debug mode; one
# that is missing was cleaned away. Both are built again.
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find rust/src -name '*.rs')
LIBRARY := $(wildcard python/pypto/_pypto*.so)

# maturin refuses to choose when both a virtual environment and conda are active.
MATURIN := env -u CONDA_PREFIX VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(BIN):$$PATH" maturin
CLIPPY  := cargo clippy --locked --all-targets
STRICT  := -- -D warnings

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-rust test-python lint format docs bench bench-rust bench-python performance sanitize setup clean FORCE
.DELETE_ON_ERROR:

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## Set everything up and run the main job: a weight that stays on the device.
	@$(PY) examples/runtime/resident_weight.py

test: test-rust test-python ## Set everything up and pass every test.

test-all: setup ## The same with the heavy cases: exhaustive inputs, gigabytes, long runs.
	cargo test --locked --release -- --include-ignored
	$(PY) -m pytest --heavy

test-rust: $(VENV)/.toolchain
	cargo test --locked

test-python: setup
	$(PY) -m pytest

lint: setup $(VENV)/.lint ## Formatting, clippy, ruff, types, and the extension's stub against the extension.
	cargo fmt --check
	$(CLIPPY) $(STRICT)
	PYO3_PYTHON="$(CURDIR)/$(PY)" $(CLIPPY) --features python $(STRICT)
	$(CLIPPY) --features trace-off $(STRICT)
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -m mypy.stubtest pypto._pypto pypto._native

format: $(VENV)/.lint ## Rewrite the sources in the house's format.
	cargo fmt
	$(PY) -m ruff format
	$(PY) -m ruff check --fix

# Not with --quiet: what that hides, --strict does not count. The variable silences advertising for mkdocs-material's heir.
docs: $(VENV)/.docs ## Build the documentation into target/docs; a broken link or anchor is an error.
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

bench: bench-rust bench-python ## Measure: criterion for the core, then the targets and the peers from Python, into target/bench.

bench-rust: $(VENV)/.toolchain
	cargo bench --locked

bench-python: setup
	$(PY) benches/python/run.py --out target/bench

performance: ## Put what `make bench` measured last into docs/performance.md and the README.
	$(PYTHON) tools/performance.py

sanitize: $(VENV)/.toolchain ## The arena under AddressSanitizer, the threads under ThreadSanitizer and loom.
	tools/sanitize.sh

setup: $(VENV)/.build ## Only set up: virtual environment, dependencies, release build of the extension.

clean: ## Remove everything that was built or set up.
	rm -rf $(VENV) target build_output python/pypto/_pypto*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests examples benches -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.toolchain: tools/setup.sh Cargo.toml
	@PYTHON="$(PYTHON)" tools/setup.sh toolchain $(VENV)
	@touch $@

$(VENV)/.dependencies: $(VENV)/.toolchain tools/setup.sh tools/requirements.py pyproject.toml
	@tools/setup.sh dependencies $(VENV)
	@touch $@

$(VENV)/.lint: $(VENV)/.dependencies
	@tools/setup.sh lint $(VENV)
	@touch $@

$(VENV)/.docs: $(VENV)/.dependencies
	@tools/setup.sh docs $(VENV)
	@touch $@

$(VENV)/.build: $(VENV)/.dependencies $(SOURCES) $(LIBRARY) $(if $(LIBRARY),,FORCE)
	@echo "== Building the extension in release mode (a minute or two the first time)"
	@PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 $(MATURIN) develop --release --locked --quiet
	@touch $@
