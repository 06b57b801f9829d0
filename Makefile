# Every target sets up what it needs from a fresh clone: `make demo` is enough.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
STAMP := .venv/.gpucast-installed
ROOMS := telemetry collectors features models forecast api
ARGS ?=
PYTEST_ARGS ?= -n 2 --dist loadgroup

.PHONY: help setup demo serve test check format lock bench clean

help: ## List the targets.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

setup: $(STAMP) ## Make .venv from requirements.lock.

$(STAMP): requirements.lock pyproject.toml scripts/set-up
	scripts/set-up

demo: $(STAMP) ## Watch a simulated cluster being forecast, advised and graded.
	$(BIN)/gpucast demo $(ARGS)

serve: $(STAMP) ## Run the service; flags in ARGS, such as ARGS="--prometheus http://127.0.0.1:9090".
	$(BIN)/gpucast serve $(ARGS)

test: $(STAMP) ## Install Prometheus and Chromium where that is possible, then run every test.
	scripts/install-debian
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS) $(ARGS)

check: $(STAMP) ## Everything a change must pass: format, lint, types, room law, tests.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS) $(ARGS)

format: $(STAMP) ## Mend what ruff can mend by itself.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(STAMP) ## Write both lock files anew; UPGRADE=1 takes the newest versions.
	scripts/lock $(if $(UPGRADE),--upgrade)

bench: $(STAMP) ## Score every model and the ingest path; flags for the forecast part in ARGS.
	$(BIN)/gpucast bench forecast $(ARGS)
	$(BIN)/gpucast bench ingest

clean: ## Remove what builds and tests left behind; .venv and your data stay.
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(ROOMS) tests -name __pycache__ -type d -prune -exec rm -rf {} +
