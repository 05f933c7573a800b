# make demo      install and run the orders example in separate processes, two of them killed midway
# make test      install and run everything: lint, then all tests
# make services  start PostgreSQL, MariaDB, Redis and RabbitMQ for the tests
#
# Variables: PYTHON=python3.12  DATABASE=postgresql+asyncpg://...  BROKER=amqp://...  REQUIRE_SERVICES=1

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
DATABASE ?=
BROKER ?= local:
TESTS ?= tests
WORKERS ?= 2

# The demo installs the drivers that its servers need and nothing else.
EXTRAS := $(strip $(if $(findstring postgresql+asyncpg,$(DATABASE)),postgresql) \
	$(if $(findstring mysql,$(DATABASE))$(findstring mariadb,$(DATABASE)),mysql) \
	$(if $(findstring redis,$(BROKER)),redis))
empty :=
space := $(empty) $(empty)
comma := ,
EXTRA_LIST := $(subst $(space),$(comma),$(strip demo $(EXTRAS)))
DEMO_STAMP := $(VENV)/.installed-$(subst $(comma),-,$(EXTRA_LIST))
DEV_STAMP := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test lint format services services-stop docs benchmark clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed '/^The demo/d' | head -6

$(BIN)/python:
	@sh scripts/create-venv.sh $(VENV)

$(DEMO_STAMP): pyproject.toml | $(BIN)/python
	@if [ -e $(DEV_STAMP) ] && [ ! pyproject.toml -nt $(DEV_STAMP) ]; then :; else \
		sh scripts/install.sh $(VENV) "$(EXTRA_LIST)"; fi
	@touch $@

$(DEV_STAMP): pyproject.toml | $(BIN)/python
	@sh scripts/install.sh $(VENV) dev
	@touch $@

demo: $(DEMO_STAMP)
	@$(BIN)/python -m examples.orders.demo --database "$(DATABASE)" --broker "$(BROKER)"

test: $(DEV_STAMP) lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(TESTS)

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

services:
	@sh scripts/services.sh start

services-stop:
	@sh scripts/services.sh stop

docs: $(DEV_STAMP)
	$(BIN)/python -m scripts.state_page > docs/states.md

benchmark: $(DEV_STAMP)
	$(BIN)/python -m benchmarks.relay
	$(BIN)/python -m benchmarks.memory

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
