# Everything a person does with this repository. 'make' alone lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

VENV := .venv
UID := $(shell id -u)

# Where a node of 'make run' keeps its things. Root has the places of an installed kubelet.
ifeq ($(UID),0)
RUN_DIR ?= /run/kubelet
else
RUN_DIR ?= $(if $(XDG_RUNTIME_DIR),$(XDG_RUNTIME_DIR)/kubelet,/tmp/kubelet-$(UID))
ROOT_DIR ?= $(or $(XDG_STATE_HOME),$(HOME)/.local/state)/kubelet
endif
LOG ?= .cache/kubelet.log
CONFIG ?= deploy/standalone.yaml
ARGS ?=
KUBELET = $(WITH_RUNTIME) $(VENV)/bin/kubelet --config '$(abspath $(CONFIG))' --run-dir '$(RUN_DIR)' \
	$(if $(ROOT_DIR),--root-dir '$(ROOT_DIR)' --cert-dir '$(ROOT_DIR)/pki') $(ARGS)

# Where the pods run. Nothing: on a containerd of its own, with the pods in MANIFESTS, and nothing is
# left of either when it stops. host: on the containerd of this machine, whose pods go on then. sim:
# on a simulated runtime, without root.
RUNTIME ?=
MANIFESTS ?= deploy/demo
WITH_CONTAINERD := $(VENV)/bin/python scripts/with_containerd.py
export SIM_ARGS
ifeq ($(RUNTIME),)
PREPARE = $(WITH_CONTAINERD) prepare
AWAIT_PODS = $(VENV)/bin/python scripts/await_pods.py --run-dir '$(RUN_DIR)'
WITH_RUNTIME = $(WITH_CONTAINERD) run --run-dir '$(RUN_DIR)' --manifests '$(abspath $(MANIFESTS))' --
else ifeq ($(RUNTIME),sim)
WITH_RUNTIME = scripts/with-sim.sh '$(abspath $(VENV)/bin/python)' '$(RUN_DIR)-sim'
else ifeq ($(RUNTIME),host)
else
$(error RUNTIME=$(RUNTIME) is not known: leave it out, or say RUNTIME=host or RUNTIME=sim)
endif

DETACH ?=
TESTS ?= tests
PYTEST_ARGS ?=

# Where 'make install' puts things. PYTHON names the interpreter for 'setup', 'lock' and 'install'.
DESTDIR ?=
PREFIX ?= /opt/kubelet
export PYTHON

##@ Run a node

.PHONY: run
run: setup ## Start a node with a demo pod; DETACH=1: in the background; RUNTIME=host or sim. ARGS="-v 4" adds flags
	@$(PREPARE)
ifneq ($(filter-out 0 no false,$(DETACH)),)
	@$(VENV)/bin/python scripts/node.py start --run-dir '$(RUN_DIR)' --log '$(LOG)' --seconds 60 -- $(KUBELET)
	@$(AWAIT_PODS)
	@# Status 1 says that something is wrong with the node, and has just said what: the start worked.
	@$(VENV)/bin/kubeletctl --run-dir '$(RUN_DIR)' status || [ $$? -eq 1 ]
	@echo; $(VENV)/bin/kubeletctl --run-dir '$(RUN_DIR)' pods
else
	@echo "==> Starting a standalone node in $(RUN_DIR) (Ctrl-C stops it, 'make status' elsewhere shows it)"
	@exec $(KUBELET)
endif

.PHONY: stop
stop: setup ## Stop the node that 'make run' started
	@$(VENV)/bin/python scripts/node.py stop --run-dir '$(RUN_DIR)'

.PHONY: status
status: setup ## Show the node's processes, its pods and what is wrong
	@$(VENV)/bin/kubeletctl --run-dir '$(RUN_DIR)' status

##@ Develop

.PHONY: setup
setup: ## Make .venv with everything in it (a second time: at once)
	@scripts/setup.sh

.PHONY: test
test: lint ## Lint, then every test. PYTEST_ARGS="-k name -x" narrows
	@echo "==> pytest: every test under $(TESTS)/"
	@$(VENV)/bin/python -m pytest $(PYTEST_ARGS) $(TESTS)

.PHONY: unit
unit: setup ## The unit tests alone (tests/unit)
	@$(VENV)/bin/python -m pytest $(PYTEST_ARGS) tests/unit

.PHONY: lint
lint: setup ## Style, format and types
	@echo "==> ruff check"
	@$(VENV)/bin/ruff check .
	@echo "==> ruff format --check"
	@$(VENV)/bin/ruff format --check .
	@echo "==> mypy (strict)"
	@$(VENV)/bin/mypy
	@if command -v shellcheck >/dev/null; then \
		echo "==> shellcheck"; shellcheck --external-sources scripts/*.sh .ci/run; \
	else echo "==> shellcheck is not installed: shell scripts are not checked"; fi

.PHONY: format
format: setup ## Format the code and fix what can be fixed by rule
	@$(VENV)/bin/ruff check --fix-only .
	@$(VENV)/bin/ruff format .

.PHONY: bench
bench: setup ## Measure, and compare with the bars
	@$(VENV)/bin/python -m bench.run

.PHONY: proto
proto: setup ## Write the stubs of all wire types (*.proto) anew
	@$(VENV)/bin/python -m kubelet.cri.generate

.PHONY: lock
lock: ## Write constraints.txt anew from the ranges in pyproject.toml
	@scripts/lock.sh

.PHONY: clean
clean: ## Remove everything that was made here, .venv included
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist ./*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Install on this host

.PHONY: install
install: ## Install or upgrade in PREFIX (/opt/kubelet) with the systemd unit; DESTDIR stages
	@scripts/install.sh install --destdir '$(DESTDIR)' --prefix '$(PREFIX)'

.PHONY: uninstall
uninstall: ## Remove what 'make install' put there
	@scripts/install.sh uninstall --destdir '$(DESTDIR)' --prefix '$(PREFIX)'

##@ Help

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
