# Two commands: `make run` and `make test`. Both set up what they need first; `make help` lists the rest.
#
#   ASSET=path    what `make run` opens         ARGS="..."   more arguments for it
#   ROS=kilted    the Kilted wheels, in .venv-kilted (default: jazzy, in .venv)
#   PYTHON=path   the Python 3.10 to 3.13 to use (default: python3)
SHELL := /bin/bash
.DEFAULT_GOAL := help

ROS ?=
VENV ?= $(if $(filter-out jazzy,$(ROS)),.venv-$(ROS),.venv)
ASSET ?= examples/rover/world.usda
ARGS ?=
SETUP := tools/setup_env.sh --venv "$(VENV)" --distro "$(ROS)"
BIN := $(VENV)/bin
ONLY_LOOPBACK ?=
MEASURE ?=
PYTEST := ROS_PYTHON_CHECK_FIELDS=1 ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST $(if $(ONLY_LOOPBACK),tools/loopback_only.sh) \
	"$(BIN)/python" $(if $(MEASURE),-m coverage run) -m pytest -n auto --dist worksteal

# A mark of the wheels' start-up, which a parent process may have left behind: with it they would not start.
unexport _ROS_WHEELS_BOOTSTRAP_COMPLETE
export PYTHON

.PHONY: help setup setup-tests setup-all setup-lint run test test-all test-pages test-long coverage check-coverage bench lint format test-browser test-robots test-assets dist test-dist test-plugins test-newton test-resolver docs docs-serve check-examples clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## install the bridge and its requirements into .venv
	@$(SETUP)

setup-tests:
	@$(SETUP) --with test

setup-all:
	@$(SETUP) --with all

setup-lint:
	@$(SETUP) --with lint

run: setup ## run the bridge on ASSET
	@exec "$(BIN)/usd_ros_bridge" run "$(ASSET)" $(ARGS)

test: setup-tests ## what the core promises: in about 4 minutes on two cores
	@$(if $(MEASURE),rm -rf build/coverage)
	@$(PYTEST) --tier test $(ARGS)

TIERS ?= test,all

test-all: setup-all ## and processes, storms, all message types and apps (TIERS=all leaves out those of `make test`)
	@$(PYTEST) --tier "$(TIERS)" $(ARGS)

test-pages: setup-all ## followed pages, and random examples: four times as many as in a test alone (TEST_EFFORT)
	@TEST_EFFORT="$${TEST_EFFORT:-4}" $(PYTEST) --tier long $(ARGS)

test-long: test-pages test-dist test-plugins test-robots test-assets test-newton test-resolver test-browser ## all tests that take long

coverage: ## `make test`, and whether it covers each module of the core: tools/core_coverage.txt
	@$(MAKE) --no-print-directory test MEASURE=1
	@$(MAKE) --no-print-directory check-coverage ARGS=

check-coverage: setup-tests
	@if compgen -G "build/coverage/data.*" >/dev/null; then "$(BIN)/python" -m coverage combine -q; fi
	@"$(BIN)/python" -m coverage json -q
	@"$(BIN)/python" tools/check_coverage.py build/coverage/report.json $(ARGS)

bench: setup-all ## all benchmarks, into benchmarks/results.json; ARGS="--only frames --quick"
	@"$(BIN)/python" -m benchmarks $(ARGS)

lint: setup-lint ## ruff, mypy --strict, the import contracts, the project's files and the words of docs, docstrings and messages
	@status=0; \
	"$(BIN)/ruff" check . || status=1; \
	"$(BIN)/ruff" format --check . || { echo 'lint: `make format` formats these files' >&2; status=1; }; \
	"$(BIN)/mypy" || status=1; \
	"$(BIN)/lint-imports" || status=1; \
	tools/check_project.sh || status=1; \
	exit $$status

format: setup-lint ## format the code with ruff
	@"$(BIN)/ruff" check --fix-only --quiet .
	@"$(BIN)/ruff" format .

test-browser: setup-tests ## the page in chromium without a screen (installs playwright, and chromium where it can)
	@VENV="$(VENV)" tools/test_browser.sh $(ARGS)

test-robots: setup-tests ## converted robots on /tf against pinocchio
	@VENV="$(VENV)" tools/test_robots.sh robots $(ARGS)

test-assets: setup-tests ## real robots and models in MuJoCo against pinocchio and their originals
	@VENV="$(VENV)" tools/test_robots.sh assets $(ARGS)

test-newton: ## the newton backend, in a separate environment (about 1 GB)
	@tools/test_newton.sh $(ARGS)

test-resolver: ## package:// by the compiled resolver, in a separate environment (about 280 MB)
	@tools/test_resolver.sh $(ARGS)

docs: ## build the site into site/, in a separate environment (strict: no broken link)
	@tools/build_docs.sh build --clean $(ARGS)

docs-serve: ## serve the site to its authors, and follow their edits
	@tools/build_docs.sh serve $(ARGS)

dist: setup ## build the wheels and the sdist into dist/
	@VENV="$(VENV)" tools/build_dist.sh

test-dist: setup-tests dist ## install the wheels of dist/ in a clean environment, and run an example there
	@"$(BIN)/python" -m pytest -q -s test/dist $(ARGS)

test-plugins: setup-tests dist ## build the example plug-ins, and run each one's tests in a clean environment
	@VENV="$(VENV)" PYTEST_ARGS="$(ARGS)" tools/test_plugins.sh

check-examples: ## the public REP 0158 compliance checker on every example (needs Python 3.12)
	@tools/check_examples.sh

clean: ## remove the environments and builds
	rm -rf .venv .venv-* build dist install log site
