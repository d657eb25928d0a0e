# Every target makes its own environment in .venv, from the lock, when it is missing or out of date.
PYTHON ?= $(shell command -v python3.11 >/dev/null 2>&1 && python3.11 --version >/dev/null 2>&1 && echo python3.11 || echo python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test newest lint docs notebooks bench lock

demo: $(READY)
	$(BIN)/hmnn run two-moons --profile quick --out runs/demo --overwrite

test: $(READY)
	$(BIN)/python -m pytest -n 2

# The plain package with the newest releases on the newest Python at hand, in .venv-newest.
newest:
	.ci/newest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in site-docs/; `.venv/bin/mkdocs serve` shows it and follows changes.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(READY)
	$(BIN)/python docs/notebooks.py notebooks

bench: $(READY)
	@scripts=$$(ls benchmarks/*.py 2>/dev/null || true); \
	if [ -z "$$scripts" ]; then echo "No benchmarks yet."; fi; \
	for script in $$scripts; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Downloads every wheel of every platform if the package index gives no hashes by itself; that takes a while.
lock: $(READY)
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --extra dev -o requirements.lock pyproject.toml

# --no-deps: the lock names every package, and pip would look for the newest one with extras beside it.
$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
	touch $@
