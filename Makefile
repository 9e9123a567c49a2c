# The targets a person needs; `make demo` and `make test` install what they need by themselves.
.PHONY: help demo test check lint fix bench prepare
.DEFAULT_GOAL := help

BIN := .venv/bin
ARGS ?=
ONLY ?=

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

prepare: ## install what is missing: packages, Redis, Docker, the sandbox's base image
	@sh deploy/prepare.sh

demo: prepare ## fix a real bug of a real package, from the signed webhook to the pull request (ARGS=--keep)
	@$(BIN)/capuchin demo $(ARGS)

test: prepare ## every test, with real Redis, Docker and git (ARGS="-k name")
	@$(BIN)/pytest $(ARGS)

check: lint test ## what CI asks of a change: lint, types, arrows, tests

lint: prepare
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

fix: prepare ## format, and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: prepare ## measure against named baselines (ONLY=name); writes build/bench.json
	@$(BIN)/python -m tests.benchmarks $(if $(ONLY),--only $(ONLY))
