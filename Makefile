# Two commands do everything on a fresh machine: `make demo` and `make test`.
# `make help` lists the rest.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
RUN ?= examples/runs/demo.toml
SEEDS ?= 20
COMPILED := build/compiled
COMPILED_TESTS := unit property/core property/log property/runtime scenarios interop \
	$(addprefix integration/,admin broker controller failover fuzz log net replication zk)
# Of each test with hypothesis in `make quick`.
QUICK_EXAMPLES := 10
ROOM ?=
ARGS ?=
# Images of Python for containers set it, and then every start of a broker, and every process of tests, compiles all that
# it loads anew: half of its CPU time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-compiled check unit quick nightly detection alarms bench bench-quick bench-checkers bench-cycles compiled wheel wheel-compiled guarantees doctor heal clean python

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

python:
	@test -n "$(PYTHON)" || { echo "highwater needs Python 3.11, 3.12 or 3.13 on PATH; none was found. On Debian or Ubuntu:"; \
		echo "  apt-get install -y python3 python3-venv"; exit 1; }

$(VENV)/.lab: pyproject.toml | python
	$(PYTHON) harness/tools/bootstrap.py --venv $(VENV) --extras lab
	@touch $@

$(VENV)/.dev: $(VENV)/.lab
	$(PYTHON) harness/tools/bootstrap.py --venv $(VENV) --extras lab,dev
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PYTHON) harness/tools/bootstrap.py --venv $(VENV) --extras lab,dev,bench
	@touch $@

demo: $(VENV)/.lab ## Start a real cluster, break it for a minute, judge it, name the report
	@$(BIN)/python -m harness.tools.install --for demo
	@$(BIN)/highwater test $(RUN) $(ARGS); code=$$?; case $$code in 0) exit 0;; 1) means=invalid;; 2) means=unknown;; \
		254) means="wrong usage, or a package is missing";; *) means="the run was not carried out";; esac; \
		echo "highwater ended with $$code: $$means (make itself ends with 2 whatever failed)" >&2; exit $$code

test: $(VENV)/.dev ## The whole suite, with linting, types and import rules; ROOM=broker/log: one room's tests alone
	@$(BIN)/python -m harness.tools.install --for test
	@$(if $(ROOM),,$(MAKE) --no-print-directory check)
	@$(BIN)/python -m tools.suite $(if $(ROOM),--room $(ROOM)) $(ARGS)

quick: $(VENV)/.dev ## In three minutes: check, unit and property tests with few examples, mutants, a run of the lab
	@$(BIN)/python -m harness.tools.install --for demo
	@$(MAKE) --no-print-directory check
	HIGHWATER_TEST_EXAMPLES=$(QUICK_EXAMPLES) $(BIN)/python -m pytest -q -n 2 --dist loadfile \
		-m "not nightly and not spark" $(ARGS) tests/unit tests/property
	$(BIN)/python -m tools.mutation --functions 6 --at-least 60
	$(BIN)/highwater test tests/quick.toml

check: $(VENV)/.dev ## ruff, mypy strict, import rules, dead code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.dead_code

unit: $(VENV)/.dev ## The tests that do no I/O
	$(BIN)/python -m pytest tests/unit tests/property tests/scenarios -m "not nightly and not spark" $(ARGS)

nightly: $(VENV)/.dev ## SEEDS seeds of every nightly run file, the long tests, and every mutant of the core; resumable
	@$(BIN)/python -m harness.tools.install --for test
	@$(BIN)/python -m harness.tools.install --for compile
	@$(BIN)/python -m harness.tools.install --for java
	@$(BIN)/highwater nightly examples/runs --seeds $(SEEDS) --resume $(ARGS); runs=$$?; \
		echo "the long tests:"; $(BIN)/python -m pytest -m nightly -q -rP; tests=$$?; \
		echo "the broker compiled:"; $(MAKE) --no-print-directory test-compiled ARGS=-q; compiled=$$?; \
		echo "mutants of the core:"; $(BIN)/python -m tools.mutation --at-least 60; mutants=$$?; \
		for code in $$runs $$tests $$compiled; do [ $$code -eq 0 ] || exit $$code; done; exit $$mutants

detection: $(VENV)/.dev ## How surely and how soon planted bugs are found (docs/detection.md); resumable, ARGS='--minutes 60'
	@$(BIN)/python -m harness.tools.install --for test
	$(BIN)/python -m tests.mutants.measure $(ARGS)

alarms: $(VENV)/.dev ## How the broker as it is is judged, seven runs of every run file (docs/detection.md); resumable
	@$(BIN)/python -m harness.tools.install --for test
	@$(BIN)/python -m harness.tools.install --for java
	$(BIN)/python -m tests.mutants.measure_alarms $(ARGS)

# What is measured is what `make wheel-compiled` packs; ARGS='--source .' measures the sources as they are.
bench: compiled ## Our broker beside Apache Kafka, every row (100 minutes); tables in benchmarks/results/
	@$(BIN)/python -m harness.tools.install --for bench
	$(BIN)/python -m benchmarks full curves --source $(COMPILED) $(ARGS)

bench-quick: compiled ## The core of it in five minutes
	@$(BIN)/python -m harness.tools.install --for bench
	$(BIN)/python -m benchmarks quick --source $(COMPILED) $(ARGS)

bench-checkers: $(VENV)/.bench ## The checkers at 10^5 to 10^8 micro-operations, DuckDB beside them; ARGS='--sizes 1e5 1e6'
	@$(BIN)/python -m harness.tools.install --for demo
	$(BIN)/python -m benchmarks checkers $(ARGS)

bench-cycles: $(VENV)/.bench ## Transactional cycles among 10^4 to 10^6 transactions; ARGS='--sizes 1e7'
	@$(BIN)/python -m harness.tools.install --for demo
	$(BIN)/python -m benchmarks cycles $(ARGS)

compiled: $(COMPILED)/.made ## build/compiled: the broker with its hot modules compiled by mypyc (docs/adr/0017)

$(COMPILED)/.made: $(VENV)/.dev setup.py $(shell find broker -name '*.py')
	@$(BIN)/python -m harness.tools.install --for compile
	rm -rf build
	HIGHWATER_COMPILE=1 $(BIN)/python setup.py -q build_py --build-lib $(COMPILED) build_ext -j2 --build-lib $(COMPILED)
	@touch $@

# In the compiled tree's own folder, so that it comes first on the path; processes that tests start take it as well.
test-compiled: compiled ## The tests of the broker, on the compiled one
	@$(BIN)/python -m harness.tools.install --for test
	cd $(COMPILED) && PYTHONPATH=$(CURDIR) HIGHWATER_TEST_SOURCE=$(CURDIR)/$(COMPILED) $(CURDIR)/$(BIN)/python -m pytest \
		-c $(CURDIR)/pyproject.toml --rootdir=$(CURDIR) -m "not nightly and not spark and not patches" $(ARGS) \
		$(addprefix $(CURDIR)/tests/,$(COMPILED_TESTS))

wheel: $(VENV)/.dev ## dist/highwater-*.whl; installed without extras it is the broker alone
	$(BIN)/python -m build --wheel --outdir dist .

wheel-compiled: $(VENV)/.dev ## The same for this machine's kind, with the hot modules compiled
	@$(BIN)/python -m harness.tools.install --for compile
	HIGHWATER_COMPILE=1 $(BIN)/python -m build --wheel --no-isolation --outdir dist .

guarantees: $(VENV)/.dev ## docs/guarantees.md, from the marks on the tests
	$(BIN)/python -m tools.guarantees

doctor: $(VENV)/.lab ## What this machine can do
	@$(BIN)/highwater doctor

heal: $(VENV)/.lab ## Remove what an aborted run may have left
	@$(BIN)/highwater heal

clean: ## Remove what make made, except store/
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
