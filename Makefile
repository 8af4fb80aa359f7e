# The two commands: `make demo` and `make test`. Everything lives in .venv.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What the extra "vision" brings, for the tests: beside the CPU build of torch the registry's torchvision does not load,
# and where it is in the environment neither does transformers.
VISION := $(VENV)/vision
# How long `make crosscheck` runs, and which instances it draws.
CROSSCHECK_S ?= 7200
CROSSCHECK_SEED ?= 0
LIBRARIES := torchvision timm diffusers importlib_metadata zipp

.PHONY: install demo test test-all lint types imports signatures mutants crosscheck bench validate models clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing partita with all extras into $(VENV) (a few minutes the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check torch==$$(sed -n 's/^torch==//p' constraints.txt) -c constraints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[all,test]' -c constraints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(VISION) $(LIBRARIES) -c constraints.txt
	@$(BIN)/python -m partita.cli.warm_up
	@touch $@

demo: install
	@$(BIN)/python examples/demo.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

imports: install
	$(BIN)/lint-imports

# The public functions, from the settings that the problems declare.
signatures: install
	PYTHONPATH=tests $(BIN)/python -m signatures

test: lint types imports
	$(BIN)/pytest -n 2 --dist worksteal

test-all: lint types imports
	$(BIN)/pytest -n 2 --dist worksteal --run-slow

mutants: install
	PYTHONPATH=tests $(BIN)/python -m mutants

crosscheck: install
	PYTHONPATH=tests $(BIN)/python -m crosscheck --seconds $(CROSSCHECK_S) --seed $(CROSSCHECK_SEED)

bench: install
	$(BIN)/python -m benchmarks

validate: install
	$(BIN)/python benchmarks/validate_training.py
	$(BIN)/python benchmarks/validate_frontier.py
	$(BIN)/python benchmarks/validate_serving.py

models: install
	PYTHONPATH=$(VISION) $(BIN)/python benchmarks/models.py --jobs 2 --docs docs/model-coverage.md

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache results
