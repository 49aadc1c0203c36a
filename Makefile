# Every target sets up what it needs. Only Python 3.11 or newer and make have to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two for each processor, as many tests wait for a process, a server or a clock; each imports all tests anew.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * os.cpu_count())')
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 5

# Thousands of processes are started; without bytecode each of them compiles what it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# What is half made when a download fails is made anew the next time.
.DELETE_ON_ERROR:
.PHONY: demo test test-all torture quick coverage kill-test agent-eval real-model browser-chat browser-runs browser-studio dialogs pictures relevance postgres peers conformance check lint types requirements bench bench-smoke examples ways-in packages docs real-knime knime-sources clean help

demo: $(VENV)/.demo  ## the product doing its main job, on loopback, without any account
	$(BIN)/knime-mcp demo
	@echo 'Here knime-mcp is $(BIN)/knime-mcp, until you type: source $(BIN)/activate'

# The three products, as they are developed.
ALL = -e ".[all]" -e packages/mcp-graph -e "packages/node-knowledge[all]"
PROJECTS = pyproject.toml packages/mcp-graph/pyproject.toml packages/node-knowledge/pyproject.toml
# Where their tests stand for a Python in which they are not installed from here.
SOURCES = $(CURDIR)/src:$(CURDIR)/packages/mcp-graph:$(CURDIR)/packages/node-knowledge

# What every run of tests has in common.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test: $(VENV)/.test  ## all tests that need no network and nobody else's server
	$(PYTEST) -m "not peer and not long"

test-all: $(VENV)/.test conformance test  ## also the whole of long corpora, servers that others wrote, conformance, kills
	$(BIN)/python -m tests.faults.kills --trials 8
	$(PYTEST) -m "peer or long"

quick: $(VENV)/.test  ## some tests of every part, within a minute, for whoever changes a line
	$(PYTEST) -q -m "quick and not long"

coverage: $(VENV)/.test  ## how much of the node knowledge its tests run: what the source documents ask for
	$(PYTEST) -q -m "not peer and not long" packages/node-knowledge/tests --cov=knime_node_knowledge --cov-report=term --cov-fail-under=90

peers: $(VENV)/.test  ## pinned environments of the servers and agents that tests talk to, under .peers/
	$(BIN)/python tests/peers/build_peers.py

check: lint types requirements  ## everything that needs no server

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/actionlint

types: $(VENV)/.dev
	$(BIN)/pyright
	$(BIN)/pyright --pythonplatform Windows src/system.py
	$(BIN)/pyright --pythonplatform Darwin src/system.py

requirements: $(VENV)/.dev  ## docs/requirements.md is what the tests' marks say
	$(BIN)/python docs/requirements.py --check

bench: $(VENV)/.test  ## what things cost, beside peers in environments of their own: benchmarks/RESULTS.md
	-$(BIN)/python tests/peers/build_peers.py --bench
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

bench-smoke: $(VENV)/.test  ## the same with small counts, beside the peers that are there
	$(BIN)/python benchmarks/run.py --smoke

conformance: $(VENV)/.test peers  ## the protocol's official suite against our client, one process per scenario
	$(BIN)/python tests/conformance/run.py
	$(BIN)/python tests/conformance/run_nodes.py

torture: $(VENV)/.test  ## the torture suite against our client and its peers, in twenty minutes: torture/README.md
	-$(BIN)/python tests/peers/build_peers.py --torture
	cd torture && ../$(BIN)/python -m knime_mcp_torture --client all --save

kill-test: $(VENV)/.test  ## 200 runs killed at random moments and resumed: nothing lost, nothing twice
	$(BIN)/python -m tests.faults.kills $(KILL_ARGS)

agent-eval: $(VENV)/.test  ## tasks for agents over real servers, with scripted models or your own: tests/evaluation/README.md
	$(BIN)/python tests/peers/build_peers.py --evaluation
	$(BIN)/python -m tests.evaluation.run $(if $(MODEL_URL),--url $(MODEL_URL)) $(if $(MODEL),--model $(MODEL)) $(EVAL_ARGS)

real-model: $(VENV)/.test  ## agents with a real small model on llama.cpp's server, both from PyPI: what breaks, and how long it takes
	$(BIN)/python -m tests.agents.try_real_model

browser-chat: $(VENV)/.test  ## the chat's page by keyboard in a real browser, in a frame like KNIME's; needs chromium
	$(BIN)/python -m tests.agents.chat.try_in_browser

browser-runs: $(VENV)/.test  ## the page of a run and `open` in a real browser, looked at by axe-core; needs chromium, node and npm
	$(BIN)/python -m tests.screens.try_run_page $(CALLS)

browser-studio: $(VENV)/.test  ## the graph studio by mouse and by keys in a real browser, its graph also run by npm's mcpgraph; needs chromium, node, npm
	$(BIN)/python -m tests.graph.studio.try_in_browser

pictures: $(VENV)/.test  ## the pictures of docs/, from examples, views and dialogs; looks at each view at 420 pixels; needs chromium, node and npm
	$(BIN)/python -m tests.screens.try_pictures

# KNIME's own sources need packages that only the other environment has.
dialogs: $(if $(KNIME_PYTHON_ROOT),.venv-knime/.ready,$(VENV)/.test)  ## every dialog as KNIME's own controls draw it; needs chromium, node and npm
	$(if $(KNIME_PYTHON_ROOT),PYTHONPATH="$(SOURCES)" .venv-knime,$(VENV))/bin/python -m tests.screens.try_dialogs $(DIALOGS_ARGS)

relevance: $(VENV)/.test  ## how well searches find what people look for, beside BM25; CATALOGUES="FILE …" for your own
	$(BIN)/python -m tests.knowledge.try_relevance $(CATALOGUES)
	$(BIN)/python -m tests.agents.toolbox.try_recall

postgres: $(VENV)/.test  ## the function of docs/gateway.md in a real PostgreSQL, which has to be installed
	$(BIN)/python -m tests.knowledge.gateway.try_postgres

examples: $(VENV)/.test  ## the workflows in examples/, after a node's settings changed
	$(BIN)/python -m examples.make_examples

ways-in: $(VENV)/.dev  ## wheel, editable, uv run, PYTHONPATH=src: in fresh environments
	$(BIN)/python -m tests.packaging.ways_in

packages: $(VENV)/.dev  ## the three wheels, a source distribution and a list of parts in dist/, checked as they will be used
	$(BIN)/python -m tests.packaging.packages $(PACKAGES_ARGS)

docs: $(VENV)/.dev  ## the pages of docs/ as a site in build/site, with a reference made from code; no dead link
	$(BIN)/python -m docs.build_site build/site

real-knime: knime-sources .venv-knime/.ready  ## the tests of nodes, under KNIME's own Python sources of every release at hand: one table
	PYTHONPATH="$(SOURCES)" .venv-knime/bin/python -m tests.support.real_knime_releases "$(KNIME_SOURCES)" $(PYTEST_ARGS)

knime-sources:
	@for name in KNIME_SOURCES KNIME_CORE_GIT KNIME_JSON_GIT; do \
	    printenv $$name >/dev/null || { echo "$$name is not set; CONTRIBUTING.md says what it names"; exit 2; }; \
	done

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## +(.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

clean:  ## removes all environments, and what checks and builds leave
	rm -rf $(VENV) .venv-knime .peers .pytest_cache .ruff_cache dist build

# One stamp per set of packages, so that the demo does not wait for the test tools. The dev group has all of the
# test group.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# Also in a .venv that was made by hand or by uv, where pip may be missing, or too old for --group.
$(VENV)/.pip: | $(VENV)/bin/python
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip
	$(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.pip
	$(PIP) install -e .
	@touch $@

$(VENV)/.test: $(PROJECTS) | $(VENV)/.pip
	$(PIP) install $(ALL) --group test
	@touch $@

$(VENV)/.dev: $(PROJECTS) | $(VENV)/.pip
	$(PIP) install $(ALL) --group dev
	@touch $(VENV)/.test $@

.venv-knime/.ready: $(PROJECTS) | $(VENV)/bin/python
	$(PYTHON) -m venv .venv-knime
	.venv-knime/bin/python -m pip --quiet install --upgrade "pip>=25.1"
	.venv-knime/bin/python -m pip --quiet install $(subst -e ,,$(ALL)) --group test --group real-knime
	.venv-knime/bin/python -m pip --quiet uninstall -y knime-mcp
	@touch $@
