# Two commands do everything on a fresh machine: `make demo` and `make test`.
# `make help` lists the rest.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
RUN ?= examples/runs/demo.toml
SEEDS ?= 20
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check unit nightly bench bench-quick wheel doctor heal clean python

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

python:
	@test -n "$(PYTHON)" || { echo "highwater needs Python 3.11, 3.12 or 3.13 on PATH; none was found. On Debian or Ubuntu:"; \
		echo "  apt-get install -y python3 python3-venv"; exit 1; }

$(VENV)/.lab: pyproject.toml | python
	$(PYTHON) harness/tools/bootstrap.py --venv $(VENV) --extras lab
	@touch $@

$(VENV)/.dev: $(VENV)/.lab
	$(PYTHON) harness/tools/bootstrap.py --venv $(VENV) --extras lab,dev
	@touch $@

demo: $(VENV)/.lab ## Start a real cluster, break it for a minute, judge it, name the report
	@$(BIN)/python -m harness.tools.install --for demo
	$(BIN)/highwater test $(RUN) $(ARGS)

test: $(VENV)/.dev ## The whole test suite, with linting, types and import rules
	@$(BIN)/python -m harness.tools.install --for test
	@$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest -m "not nightly" --durations=25 $(ARGS)

check: $(VENV)/.dev ## ruff, mypy strict, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.dev ## The tests that do no I/O
	$(BIN)/python -m pytest tests/unit tests/property tests/scenarios -m "not nightly and not spark" $(ARGS)

nightly: $(VENV)/.dev ## SEEDS seeds of every nightly run file, and the long tests; resumable
	@$(BIN)/python -m harness.tools.install --for test
	@$(BIN)/highwater nightly examples/runs --seeds $(SEEDS) --resume $(ARGS); runs=$$?; \
		echo "the long tests:"; $(BIN)/python -m pytest -m nightly -q -rP; tests=$$?; \
		if [ $$runs -ne 0 ]; then exit $$runs; fi; exit $$tests

bench: $(VENV)/.lab ## Our broker beside Apache Kafka, every row (hours); table in benchmarks/results/
	@$(BIN)/python -m harness.tools.install --for bench
	$(BIN)/python -m benchmarks full $(ARGS)
	$(BIN)/python -m benchmarks curves $(ARGS)

bench-quick: $(VENV)/.lab ## The core of it in about 5 minutes
	@$(BIN)/python -m harness.tools.install --for bench
	$(BIN)/python -m benchmarks quick $(ARGS)

wheel: $(VENV)/.dev ## dist/highwater-*.whl; installed without extras it is the broker alone
	$(BIN)/python -m build --wheel --outdir dist .

doctor: $(VENV)/.lab ## What this machine can do
	@$(BIN)/highwater doctor

heal: $(VENV)/.lab ## Remove what an aborted run may have left
	@$(BIN)/highwater heal

clean: ## Remove what make made, except store/
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
