# Two commands: `make run` trains and shows it, `make test` runs every test.
# Both set up what they need first, and are quick when nothing changed. `make help` lists the others.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Without byte code, every process that a test starts compiles all of dlmon again.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that TensorFlow supports; PYTHON=... overrides.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& { echo $$p; break; }; done)

# USE_UV=/path/to/uv installs with it, in a fifth of pip's time, which serves where uv can't. To put
# pip into an environment takes seconds.
new_venv = $(PYTHON) -m venv $(if $(USE_UV),--without-pip) $(1)
pip_install = $(if $(USE_UV),$(1) -m ensurepip && )$(1) -m pip install --quiet $(2)
install = $(if $(USE_UV),$(USE_UV) pip install --quiet --python $(1) $(2) || { $(pip_install); },$(pip_install))

.PHONY: run test setup lint types types-elsewhere unit fast golden ui e2e costly frameworks gpu-wheels dist site python3.14 clean help

run: setup ## train mnist-mlp-small for a minute and show it
	@echo "10 epochs of mnist-mlp-small: about a minute on two cores; the screen says when it ends once it trains"
	@$(BIN)/dlmon run mnist-mlp-small

test: lint unit ui e2e ## run every test but the costly ones

setup: $(VENV)/installed ## set up .venv

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "dlmon needs Python 3.11, 3.12 or 3.13: install one, or say make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV) with TensorFlow and the tools, once: 2.4 GB on disk"
	$(call new_venv,$(VENV))
	$(call install,$(BIN)/python,--editable '.[dev]')
	@touch $@

# What runs in other people's interpreters and on other machines, which may have Python 3.10.
ELSEWHERE := workloads $(addprefix dlmon.,alerts comparison doctor exporter instrument launch log records \
	protocol remote sensors session slurm statistics supervisor sweep system trackers)

lint: setup ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --jobs 2 --output-sync types types-elsewhere
	$(BIN)/lint-imports

types:
	$(BIN)/mypy

types-elsewhere:
	$(BIN)/mypy --python-version 3.10 $(addprefix -p ,$(ELSEWHERE))

CORES := $(shell getconf _NPROCESSORS_ONLN)

unit: setup ## unit tests
	$(BIN)/pytest -n $(CORES) --dist worksteal tests/unit

fast: setup ## unit tests, but for the slow ones
	$(BIN)/pytest -n $(CORES) -m "not slow" tests/unit

golden: setup ## write the figures that tests/unit/test_golden_figures.py compares
	PYTHONPATH=tests $(BIN)/python -m golden

# Half of a screen's test is waiting for it.
ui: setup ## the screens, without a terminal
	$(BIN)/pytest -n $$((2 * $(CORES))) --dist loadgroup tests/ui

list_frameworks = $(PYTHON) -c 'import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["frameworks"], sep="\n")'

# Without it, the tests of scripts that train with these are skipped.
FRAMEWORKS ?= .frameworks
frameworks: $(FRAMEWORKS)/installed ## set up PyTorch, Lightning, Transformers, Keras and JAX for tests

$(FRAMEWORKS)/installed: pyproject.toml
	$(call new_venv,$(FRAMEWORKS))
	$(call install,$(FRAMEWORKS)/bin/python,--requirement <($(list_frameworks)))
	@touch $@

ifneq ($(wildcard $(FRAMEWORKS)/installed),)
export DLMON_TEST_FRAMEWORKS ?= $(abspath $(FRAMEWORKS))/bin/python
endif

# More than half of a run is waiting: for a signal, for the end of a process.
e2e: setup ## real processes, signals and Keras
	$(BIN)/pytest -n $$(($(CORES) + 6)) --dist loadgroup -m "not costly" tests/e2e

costly: setup ## the real frameworks and tools again for which CI has no time
	$(BIN)/pytest -n $(CORES) -m costly tests/e2e

# What a machine with a GPU and no package index lacks for bench/gpu_day.py, for its Python.
GPU_PYTHON ?= 3.12
gpu-wheels: setup ## download what a machine with a GPU and no package index lacks
	rm -rf .wheels
	$(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --dest .wheels \
		--python-version $(GPU_PYTHON) --implementation cp --abi cp$(subst .,,$(GPU_PYTHON)) --abi abi3 --abi none \
		$(addprefix --platform ,$(addsuffix _x86_64,manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014)) \
		--requirement bench/gpu_wheels.txt
	@du -sh .wheels

dist: setup ## build a wheel, an sdist and dlmon.pyz, and install each as people do
	packaging/build $(PYTHON)
	PATH="$(abspath build/tools/bin):$$PATH" $(BIN)/pytest tests/dist/test_dist.py

site: setup ## build the pages of docs/ as a site, into build/site
	$(PYTHON) -m venv build/site-tools
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["site"], sep="\n")' \
		| build/site-tools/bin/python -m pip install --quiet --requirement /dev/stdin
	NO_MKDOCS_2_WARNING=1 build/site-tools/bin/mkdocs build --quiet --clean --config-file packaging/site/mkdocs.yml
	$(BIN)/pytest tests/dist/test_site.py

# A Debian of its own for Python 3.14, as root: `make python3.14 dist` tries dlmon there, too.
python3.14: build/sid/usr/bin/python3.14 ## make a folder with Debian sid, whose Python is 3.14

build/sid/usr/bin/python3.14:
	rm -rf build/sid
	debootstrap --variant=minbase --include=python3,ca-certificates sid build/sid \
		"$$(apt-get indextargets --format '$$(REPO_URI)' | grep -m 1 '/debian/$$')"

clean: ## remove .venv and what the tools left
	rm -rf $(VENV) $(FRAMEWORKS) dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
