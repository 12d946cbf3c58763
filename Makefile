# featavg: `make reproduce` and `make test` need Python 3.10 or newer, and nothing else.

PYTHON ?= python3
BIN    := .venv/bin
OUT    ?= featavg-results/report
ARGS   ?=

# One BLAS thread for each of the two test workers: more would fight over the cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help reproduce test test-full lint format bench mutants site docs package test-all test-lowest clean distclean venv-core venv-docs venv-dev python

help: ## Show the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
	  awk -F ':.*## ' '{ printf "  make %-11s %s\n", $$1, $$2 }'

reproduce: venv-core ## Install the core, run the quick claims, write featavg-results/report (more: ARGS="--full")
	@$(BIN)/featavg reproduce --out "$(OUT)" $(ARGS)

test: lint ## Install the tests' tools, then check format, lint, types, tests and doctests
	@$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal -m "not full" $(ARGS)

test-full: lint ## What the gate leaves out too: long tests, shape checks, mutants, every Python, notebooks
	@$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal $(ARGS)
	@# Bad values are answered by the checker itself: their tests are left out of this run.
	@$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal --jaxtyping-packages=featavg,shape_checker.checker \
	  -k "not refused and not bad and not sentence" tests/data tests/nets tests/training tests/measures tests/robustness
	@$(MAKE) mutants site test-all

lint: venv-dev ## The part of the gate that runs nothing: format, lint, types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy src

format: venv-dev ## Put the code into the common format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: venv-dev ## Measure speed and memory against PyTorch, side by side
	@$(BIN)/python bench/run.py $(ARGS)

site: venv-docs ## Build the documentation to read it (out/docs), with its examples run; no PyTorch needed
	@$(BIN)/python tools/docs.py $(ARGS)

docs: venv-dev site ## The same with PyTorch, and then what the tests leave out of pages and examples
	@$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal -m full tests/docs src

test-all: python ## Run the fast tests on every Python from 3.10 to 3.13 that is here
	@$(PYTHON) tools/test_all.py $(ARGS)

test-lowest: python ## Run the fast tests with the oldest releases that pyproject.toml allows
	@$(PYTHON) tools/test_all.py --lowest $(ARGS)

package: python ## Build wheel and sdist, install the wheel into a clean environment, use it from another folder
	@$(PYTHON) tools/package.py $(ARGS)

mutants: venv-dev ## Break the code on purpose and report what no test notices (ARGS="robustness/exact --sample 40")
	@$(ONE_THREAD) $(BIN)/python tools/mutants.py $(ARGS)

clean: ## Remove caches and the report
	@rm -rf featavg-results/report build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## Remove the environment too
	@rm -rf .venv .venv.lock .venv.installing

python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "featavg needs Python 3.10 or newer, and there is no $(PYTHON) here: name one, as in \`make PYTHON=python3.12 reproduce\`." >&2; \
	  exit 2; }

venv-core: python
	@$(PYTHON) tools/venv.py core

venv-docs: python
	@$(PYTHON) tools/venv.py docs

venv-dev: python
	@$(PYTHON) tools/venv.py dev
