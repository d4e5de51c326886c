# Aftershock. `make demo` and `make test` install what they need by themselves.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEV_READY := .venv/.ready-dev

COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help setup setup-dev ui airflow-up airflow-down demo test test-quick standard test-landing test-all lint format bench bench-audit lock wheel clean

help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## make .venv, install the pinned requirements, look for Java 17+
	@$(BIN)/python -m compileall -q chaos checks dags # a run starts dozens of Python processes: none should compile
	@$(BIN)/python -m chaos java --install

setup-dev: setup $(DEV_READY) ## add what tests, lint and benchmarks need

$(READY): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Aftershock needs Python 3.11 or newer; name one with make PYTHON=python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
		{ echo "Python cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"; exit 2; }
	@echo "installing the pinned requirements into .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.txt
	@touch $@

$(DEV_READY): $(READY) requirements-dev.txt
	@echo "installing the pinned development requirements into .venv (once)"
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements-dev.txt
	@touch $@

airflow-up: ## Airflow for a team, in containers, at 127.0.0.1:8080
	@test -e docker/.env || docker/make-env
	$(COMPOSE) -f docker/compose.yaml up -d

airflow-down: ## stop it; what it knows stays
	$(COMPOSE) -f docker/compose.yaml down

ui: setup ## Airflow with its web page and a DAG for each scenario, on this machine, until Ctrl-C
	@$(BIN)/python -m chaos ui

demo: setup ## break a cluster in three ways through Airflow, and show the proof
	@$(BIN)/python -m chaos dag resilience-demo

lint: setup-dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An empty variable is none: pytest keeps what it compiled, and the next lane collects its tests in half the time.
# Tests that wait for programs leave one of two cores idle, so a third worker uses it.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations 30

test-quick: setup-dev ## the quick lane: no broker, no Airflow, no container, no browser, little Spark
	$(PYTEST) -m "not (kafka or airflow or spark or spark_cluster or browser or docker or slow or landing or nightly)"

test: ## the standard lane: each behaviour, on real clusters, in a container, through Airflow and in a browser
	@$(MAKE) --no-print-directory -j 2 lint standard

standard: setup-dev
	$(PYTEST) -m "not landing and not nightly"

test-landing: setup-dev ## beside it, before each landing: whole systems, other runtimes, and long runs
	$(PYTEST) -m "landing and not nightly"

test-all: lint ## the nightly lane: the whole catalogue too, and each behaviour on other releases and drivers
	AUDIT_HISTORIES=4000 $(PYTEST)

bench: setup-dev ## measure: cluster start, runs, clients with and without a ledger
	$(BIN)/python -m tests.bench

bench-audit: setup-dev ## measure the audit of 1M to 100M records, beside the methods of others (20 min)
	$(BIN)/python -m tests.bench.bench_audit

format: setup-dev ## rewrite the code in its style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup ## pin requirements.txt and requirements-dev.txt again
	$(BIN)/uv pip compile --quiet --upgrade --no-header --python-version 3.11 requirements.in dags/requirements.in \
		-o requirements.txt
	sed -i '1i # Pinned runtime requirements, compiled by `make lock` from requirements.in and dags/requirements.in.' requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --no-header --python-version 3.11 --group pyproject.toml:dev \
		-c requirements.txt -o requirements-dev.txt
	sed -i '1i # Pinned development requirements, compiled by `make lock` from the group `dev` in pyproject.toml.' requirements-dev.txt

wheel: setup-dev ## build the wheel into dist/
	$(BIN)/python -m build --wheel --installer uv

clean: ## remove what was made here, but for runs/
	rm -rf .venv .airflow .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
