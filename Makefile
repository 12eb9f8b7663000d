# Every task of the project. Each sets up what it needs: environments from the lock files of requirements/, the kernel by Cargo.
# `make help` lists them. PYTHON=... names the Python to use; else tools/find-python looks for one.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
ZARR2 := .venv-zarr2
OLDEST := .venv-oldest
NEWEST := .venv-newest
DOCS := .venv-docs
SERVERS ?= .servers
CARGO := cargo
MANIFEST := --manifest-path rust/Cargo.toml
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps
LOCKED := --only-binary :all: --require-hashes -r
RUST_SOURCES := $(wildcard rust/Cargo.toml rust/Cargo.lock rust/build.rs) $(shell find rust/src -name '*.rs' 2>/dev/null)
PYTHON_SOURCES := $(shell find src -name '*.py' -o -name '*.pyi')

# The Rust bindings ask this one, so that nothing is built anew when another Python comes first in the path.
export PYO3_PYTHON := $(abspath $(BIN)/python)
export LIBZ_SYS_STATIC := 1
export SERVERS
# Tests start Python hundreds of times and each worker imports all of them: what was compiled once is kept, also where that is not the habit.
unexport PYTHONDONTWRITEBYTECODE

PYTEST_ARGS ?=
SECONDS ?= 60
SOAK_ARGS ?=
BENCH_ROWS ?=
BENCH_ARGS ?=
BENCH_JSON ?= $(BENCH)/last.json

.PHONY: help
help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

# --- environments ---------------------------------------------------------------------------------------------------------------------

$(VENV)/made:
	@command -v $(CARGO) >/dev/null || { echo "make: Cargo is needed to build the kernel" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "make: a C compiler (cc) is needed to build the kernel" >&2; exit 1; }
	python=$$(PYTHON="$(PYTHON)" tools/find-python 11); echo "$(VENV): $$python"; "$$python" -m venv --clear $(VENV)
	touch $@

$(VENV)/build $(VENV)/demo $(VENV)/dev: $(VENV)/%: requirements/%.txt $(VENV)/made
	$(BIN)/python $(PIP_INSTALL) $(LOCKED) $<
	touch $@

# Built with optimisation, installed so that edits of src/ count at once; edits of rust/ build it anew.
$(VENV)/kernel: $(RUST_SOURCES) pyproject.toml Makefile | $(VENV)/build
	@echo "building the kernel (a minute or two the first time)"
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python $(PIP_INSTALL) --no-build-isolation --editable .
	touch $@

.PHONY: build
build: $(VENV)/build $(VENV)/kernel ## make .venv with the kernel in it

# zarr-python 2.18, the last one that has the older dialect of the draft. Where this cannot be made (nothing can be fetched, or only a Python is there
# that it has no wheels for), the tests that need it are skipped and say so.
$(ZARR2)/ready: requirements/zarr2.txt
	@{ python=$$(PYTHON="$(PYTHON)" tools/find-python 11) && echo "$(ZARR2): $$python" && "$$python" -m venv --clear $(ZARR2) && \
		$(ZARR2)/bin/python $(PIP_INSTALL) $(LOCKED) $< && touch $@; } || \
		{ rm -rf $(ZARR2); echo "make: $(ZARR2) cannot be made here; tests with zarr-python 2.18 will be skipped" >&2; }

# The oldest versions of zarr-python and xarray that are supported, with Frazil from a wheel, as users have it.
$(OLDEST)/ready: requirements/oldest.txt $(VENV)/build $(VENV)/kernel $(PYTHON_SOURCES)
	python=$$(PYTHON="$(PYTHON)" tools/find-python 11); echo "$(OLDEST): $$python"; "$$python" -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python $(PIP_INSTALL) $(LOCKED) $<
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(OLDEST)/wheel .
	$(OLDEST)/bin/python $(PIP_INSTALL) --no-index --force-reinstall $(OLDEST)/wheel/*.whl
	touch $@

# The newest versions of NumPy, zarr-python and xarray, which need Python 3.12. Where only an older Python is there, the tests that need it are left out.
$(NEWEST)/ready: requirements/dev.txt $(VENV)/build $(VENV)/kernel $(PYTHON_SOURCES)
	@if python=$$(PYTHON="$(PYTHON)" tools/find-python 12); then echo "$(NEWEST): $$python" && "$$python" -m venv --clear $(NEWEST) && \
		$(NEWEST)/bin/python $(PIP_INSTALL) $(LOCKED) $< && \
		PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(NEWEST)/wheel . && \
		$(NEWEST)/bin/python $(PIP_INSTALL) --no-index --force-reinstall $(NEWEST)/wheel/*.whl && touch $@; \
	else rm -rf $(NEWEST); echo "make: no Python 3.12 or newer is here; the tests with the newest versions will be left out" >&2; fi

# Object stores that tests run against. What cannot be had here is left out: its tests are skipped and say so.
$(SERVERS)/ready: tools/servers
	@tools/servers $(SERVERS)

# --- using it -------------------------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/demo $(VENV)/kernel ## write, read, draw and commit a real data set (the GLOBE land mask, 933 MB)
	$(BIN)/python examples/demo.py

# --- tests ----------------------------------------------------------------------------------------------------------------------------

.PHONY: test test-kernel test-python test-foreign test-oldest test-newest campaign soak
test: test-kernel test-python ## all tests, of the kernel and of the Python side

test-kernel: $(VENV)/made ## the kernel's own tests
	$(CARGO) test --quiet --locked --lib $(MANIFEST)

test-python: $(VENV)/dev $(VENV)/kernel $(ZARR2)/ready $(SERVERS)/ready ## the Python tests (PYTEST_ARGS=...)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal --hypothesis-profile ci --durations 5 --durations-min 5 $(PYTEST_ARGS)

test-foreign: $(VENV)/dev $(VENV)/kernel $(ZARR2)/ready $(SERVERS)/ready ## exchange with zarr-python, zarrs, tensorstore and zarrita.js (PYTEST_ARGS=...)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal --hypothesis-profile ci -m foreign $(PYTEST_ARGS)

# Without zarr-python's state machines, which take minutes and draw data types that the oldest version does not have.
test-oldest: $(OLDEST)/ready ## the tests of the integrations, with the oldest zarr-python and xarray (PYTEST_ARGS=...)
	$(OLDEST)/bin/python -m pytest --numprocesses auto --maxprocesses 4 --hypothesis-profile ci -m "not campaign" -k "not machine" $(PYTEST_ARGS) \
		tests/integrations/zarr tests/integrations/xarray tests/foreign/zarr_python tests/stores/operations/test_zarr_operations.py

test-newest: $(NEWEST)/ready ## the tests of the integrations and data types, with the newest NumPy, zarr-python and xarray (PYTEST_ARGS=...)
	test ! -e $< || $(NEWEST)/bin/python -m pytest --numprocesses auto --maxprocesses 4 --hypothesis-profile ci -m "not campaign" -k "not machine" \
		$(PYTEST_ARGS) tests/integrations tests/foreign/zarr_python tests/codecs tests/metadata/types tests/operations/view tests/array/test_data_types.py \
		tests/array/test_fallback_warnings.py tests/stores/operations/test_zarr_operations.py

campaign: $(VENV)/dev $(VENV)/kernel $(ZARR2)/ready $(SERVERS)/ready ## what takes some three hours of one core: many more kills, larger selections, many more examples
	$(BIN)/python -m tests.soak --seconds 600
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal --hypothesis-profile nightly -o faulthandler_timeout=0 \
		-m "(campaign or search or hypothesis) and not foreign" $(PYTEST_ARGS)

# For hours: SECONDS=14400. A failure prints the command that repeats its round.
soak: $(VENV)/dev $(VENV)/kernel $(SERVERS)/ready ## processes in one repository that are killed, stopped and failed (SECONDS=60 SOAK_ARGS=...)
	$(BIN)/python -m tests.soak --seconds $(SECONDS) $(SOAK_ARGS)

# --- checks ---------------------------------------------------------------------------------------------------------------------------

.PHONY: check check-python check-layers check-rust
check: check-python check-layers check-rust ## formatters, linters, strict types, layers

check-python: $(VENV)/dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

check-layers: $(VENV)/dev
	$(BIN)/python -m pytest --quiet tests/test_layers.py tests/test_repository_text.py tests/rules

check-rust: $(VENV)/made
	$(CARGO) fmt --check $(MANIFEST)
	$(CARGO) clippy --quiet --locked --all-targets $(MANIFEST) -- -D warnings

.PHONY: format
format: $(VENV)/dev ## format the code, and mend what the linter can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	$(CARGO) fmt $(MANIFEST)

# --- benchmarks: two environments, so that Frazil runs without its peers ---------------------------------------------------------------

$(BENCH)/%/made:
	python=$$(PYTHON="$(PYTHON)" tools/find-python 12); echo "$(@D): $$python"; "$$python" -m venv --clear $(@D)
	touch $@

$(BENCH)/peers/ready: requirements/bench.txt $(BENCH)/peers/made
	$(@D)/bin/python $(PIP_INSTALL) $(LOCKED) $<
	touch $@

# From a wheel, as users have it.
$(BENCH)/frazil/ready: $(BENCH)/frazil/made $(VENV)/build $(VENV)/kernel $(PYTHON_SOURCES)
	rm -rf $(BENCH)/wheel
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(BENCH)/wheel .
	$(@D)/bin/python $(PIP_INSTALL) $(LOCKED) requirements/build.txt
	$(@D)/bin/python $(PIP_INSTALL) --no-index --force-reinstall $(BENCH)/wheel/*.whl
	touch $@

.PHONY: bench bench-quick targets
bench: $(BENCH)/peers/ready $(BENCH)/frazil/ready ## compare with zarr-python, zarrs, tensorstore (BENCH_ROWS=read,random BENCH_ARGS=...)
	$(BENCH)/peers/bin/python benchmarks/compare.py --python frazil=$(BENCH)/frazil/bin/python \
		--python frazil_repo=$(BENCH)/frazil/bin/python --python frazil_repo_durable=$(BENCH)/frazil/bin/python \
		$(if $(BENCH_ROWS),--rows $(BENCH_ROWS)) --json $(BENCH_JSON) $(BENCH_ARGS)
	$(BENCH)/peers/bin/python benchmarks/targets.py $(BENCH_JSON)

bench-quick: ## the same at small sizes, to try the harness; its ratios mean nothing
	$(MAKE) bench BENCH_JSON=$(BENCH)/quick.json BENCH_ARGS="--quick $(BENCH_ARGS)"

targets: ## the targets, as the last `make bench` measured them
	$(BENCH)/peers/bin/python benchmarks/targets.py $(BENCH_JSON)

# --- documentation and packages --------------------------------------------------------------------------------------------------------

$(DOCS)/ready: requirements/docs.txt
	python=$$(PYTHON="$(PYTHON)" tools/find-python 11); "$$python" -m venv --clear $(DOCS)
	$(DOCS)/bin/python $(PIP_INSTALL) $(LOCKED) $<
	touch $@

.PHONY: docs
docs: $(DOCS)/ready $(VENV)/kernel ## make the site of docs/ in build/docs
	PYTHONPATH=src $(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@echo "build/docs/index.html"

# An abi3 wheel, for every Python from 3.11 on, and an sdist.
.PHONY: wheel
wheel: $(VENV)/build ## make a wheel and an sdist in dist/
	rm -rf dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --quiet --release --locked --strip --sdist --out dist
	@ls dist

# With an empty environment in which there is no Cargo, as users have it.
.PHONY: test-wheel
test-wheel: wheel ## install the wheel into a new environment without Cargo, and run the README there
	tools/try-wheel "$$(tools/find-python 11)" dist/*.whl

# --- upkeep ---------------------------------------------------------------------------------------------------------------------------

.PHONY: lock
lock: ## write the lock files of requirements/ anew (LOCK_ARGS=--upgrade)
	python=$$(PYTHON="$(PYTHON)" tools/find-python 11); "$$python" -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.8
	tools/lock $(VENV)-lock $(LOCK_ARGS)

.PHONY: conformance
conformance: $(VENV)/made ## write the tables of docs/conformance anew, from the rules and the markers of the tests
	$(BIN)/python tools/conformance.py

.PHONY: clean
clean: ## remove all that make made
	rm -rf $(VENV) $(VENV)-lock $(BENCH) $(ZARR2) $(OLDEST) $(NEWEST) $(DOCS) .servers rust/target build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src -name '_kernel*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
