# `make` lists the targets. Everything lives in .venv: `make clean` gives the checkout back as it was.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.setup-done

# What to test and how: make test T=tests/core ARGS="-x -k fits"
T    ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup engine demo report-demo test check format readme bench-overhead bench-storage stats chaos clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with the tuner and its development tools

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not: run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setup: installing the tuner and its development tools into $(VENV): about a minute"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "no virtual environment could be made; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable .[machines] --group dev
	@touch $@

engine: setup ## build two llama-servers and fetch the small model that the tests use (10 to 20 minutes, once)
	@$(BIN)/python -m tests.support.engine_setup

demo: setup ## tune the small model on this machine, on two devices made unequal
	@$(BIN)/python -m tests.support.engine_setup 11434
	@echo "demo: tuning the small model on two unequal devices of this machine"
	@$(BIN)/python -m tests.demo

report-demo: engine ## write that study's report and how it looks as pictures; needs Chromium
	@echo "report-demo: results/demo/report.html"
	@$(BIN)/python -m tests.report_demo

test: engine ## run the tests; T=path and ARGS="-x" narrow them
	@echo "test: pytest $(T) $(ARGS)"
	@$(BIN)/python -m pytest $(ARGS) $(T)

check: setup ## format, lint, types and the import rule, without changing a file
	@echo "check: ruff, mypy, import-linter"
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## format the code and mend what ruff can mend
	@echo "format: ruff"
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

readme: setup ## write the commands' help texts into README.md
	@echo "readme: refreshing the help texts"
	@$(BIN)/python -m tests.support.readme_help

bench-overhead: setup ## measure what the tuner itself costs a trial
	@echo "bench-overhead: measuring the tuner's own time per trial"
	@$(BIN)/python -m tests.bench.overhead

bench-storage: setup ## measure what a storage that several workers share costs a trial; needs PostgreSQL
	@echo "bench-storage: 1, 4 and 16 workers on a local PostgreSQL: about 10 minutes; ARGS=--study for a whole study"
	@$(BIN)/python -m tests.bench.storage $(ARGS)

stats: setup ## rerun the simulations of the confirmation: coverage and power
	@echo "stats: playing confirmations with known rates: about a minute on two cores"
	@$(BIN)/python -m tests.bench.stats $(ARGS)

chaos: setup ## let all go wrong that can in a night: servers that fail, full disks, kills; ARGS="--seed 7"
	@echo "chaos: failing servers, full disks and 200 kills: 3 to 8 minutes on two cores"
	@$(BIN)/python -m tests.chaos $(ARGS)

clean: ## remove .venv and all caches; results/ stays
	@echo "clean: removing $(VENV) and the caches"
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build *.egg-info
	@find tuner tests -name __pycache__ -type d -prune -exec rm -rf {} +
