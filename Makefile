# Each target installs what it needs; only Python 3.11 or later and a C compiler must be present.
# Override VENV and PYTHON if needed: make test VENV=/tmp/elsewhere PYTHON=python3.13
# CONSTRAINTS=constraints.txt installs the versions listed there instead of the newest ones, as .ci/run does.

VENV ?= .venv
PYTHON ?= python3
CONSTRAINTS ?=

demo_extras := plots,serve
quick_extras := test
dev_extras := dev
bench_extras := bench
# What they take on disk, with all that they need.
demo_size := 0.9 GB
quick_size := 1.3 GB
dev_size := 5.4 GB
bench-serve_extras := serve

# The emulators of Azure run on Node, axe-core checks the page, and the TypeScript client is compiled; without npm, the
# tests that need them are skipped and print the reason.
node_folders := tests/azurite tests/cosmos tests/axe clients/typescript examples/shop
node_packages := $(if $(shell command -v npm),$(addsuffix /node_modules/.package-lock.json,$(node_folders)))

# The folders of `make quick`: no Java, Node, browser or PostgreSQL, no TensorFlow, PyTorch or JAX.
quick := base data evaluation geometry ingest maps model points synthetic
folders := $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py)))))
real_parts := spark or azure or postgres or cosmos or browser or keras or node

# PART=model, PART=estimator or PART=tests/points/test_topk.py: a folder or a file of tests.
part := $(if $(PART),$(firstword $(wildcard tests/$(PART) tests/test_$(PART).py $(PART))))
ifneq ($(PART),)
ifeq ($(part),)
$(error there is no folder or file PART=$(PART) in tests: give one of $(folders), or the path of a file)
endif
endif
# The environment of `make quick` is enough for these; the others need all packages, and so does make test as a whole.
small := $(if $(wildcard $(VENV)/installed-dev),,$(filter $(quick) batch cli learning studies,$(PART)))
in_two_processes := --dist load $(foreach process,1 2,--tx 'popen//env:NUMBA_CACHE_DIR=$(CURDIR)/.build/numba/$(process)')

.SILENT:
.NOTPARALLEL:  # two targets never run pip in one environment at the same time
.PHONY: help demo quick test soak check site package bench bench-serve constraints

help: ## print this list
	awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/installed-demo ## generate a synthetic shop, train and compare two models, print the address of a page with recommendations
	$(VENV)/bin/lorentzrec demo

# Each test process has its own cache of compiled kernels, so that they compile in parallel.
quick: $(VENV)/installed-$(if $(wildcard $(VENV)/installed-dev),dev,quick) ## run the tests of the library in two minutes, with few packages; it prints what it leaves out
	echo "Left out: what needs Spark, Azurite, PostgreSQL, Cosmos DB, Node.js, a browser or Keras, tests/test_*.py, and the folders"
	echo "$(filter-out $(quick),$(folders)). make test runs everything, and make test PART=FOLDER one folder."
	$(VENV)/bin/python -m pytest --quiet $(in_two_processes) -m 'not ($(real_parts))' $(quick:%=tests/%)

test: $(VENV)/installed-$(if $(small),quick,dev) $(if $(small),,$(node_packages)) ## run all tests, or those of one folder or file with PART=model; COVERAGE=1 measures coverage and checks its minimum
	$(VENV)/bin/python -m pytest --quiet $(in_two_processes) $(if $(COVERAGE),--cov) $(part)

soak: $(VENV)/installed-dev $(node_packages) ## test kill -9, moved stores, slow clients, rotated keys for an hour; ROUNDS=3 for a quick run
	$(VENV)/bin/python -m tests.soak $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only $(ONLY))

%/node_modules/.package-lock.json: %/package-lock.json
	echo "Installing the packages of $*, once ..."
	npm ci --prefix $* --silent --no-audit --no-fund
	touch $@

check: $(VENV)/installed-dev ## check lint, format, types, import layers and prose
	$(VENV)/bin/ruff check --quiet --output-format concise .
	$(VENV)/bin/ruff format --quiet --check .
	$(VENV)/bin/mypy --strict --no-error-summary $(wildcard src tests benchmarks)
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/python -m pytest --quiet tests/test_source_files.py

site: $(VENV)/installed-dev ## the documentation site, in .build/site
	$(VENV)/bin/python docs/generated_pages.py
	$(VENV)/bin/python -m sphinx -q -W -b html docs .build/site

# The wheel is built from the sdist, so that both are tested by one installation. The list of its packages is CycloneDX.
package: $(VENV)/installed-dev ## build sdist, wheel and the list of its packages in .build/package, install the wheel into an empty environment, train and recommend
	rm -rf .build/package
	$(VENV)/bin/python -m hatchling build --target sdist --directory .build/package
	$(VENV)/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation \
	  --wheel-dir .build/package .build/package/lorentzrec-*.tar.gz
	$(PYTHON) -m venv .build/package/venv
	.build/package/venv/bin/python -m pip install -qq --disable-pip-version-check \
	  $(addprefix --constraint ,$(CONSTRAINTS)) .build/package/lorentzrec-*.whl
	NUMBA_CACHE_DIR=$(CURDIR)/.build/numba/package .build/package/venv/bin/python -I tests/installed_package.py
	$(PYTHON) -m venv .build/package/tools
	.build/package/tools/bin/python -m pip install -qq --disable-pip-version-check \
	  $(addprefix --constraint ,$(CONSTRAINTS)) cyclonedx-bom==7.5.0
	.build/package/tools/bin/cyclonedx-py environment --output-reproducible --validate \
	  --output-file .build/package/lorentzrec.cdx.json .build/package/venv/bin/python
	rm -rf .build/package/venv .build/package/tools

bench: $(VENV)/installed-bench ## run the benchmarks, alongside comparable libraries
	$(VENV)/bin/python benchmarks/run.py

bench-serve: $(VENV)/installed-bench-serve ## measure the service under load; QUICK=--quick takes one minute instead of ten
	$(VENV)/bin/python benchmarks/bench_serve.py $(QUICK)

# Run it with the oldest supported Python: versions for it also install on newer ones. torch is left out, because
# pyproject.toml pins it and the name of its build depends on the machine.
constraints: ## update constraints.txt to the newest versions of all packages; run the tests before committing it
	$(PYTHON) -m venv --clear .build/constraints
	.build/constraints/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev,bench]'
	echo '# The versions that the tests run with, on Python 3.11 to 3.13; written by `make constraints`, used by .ci/run.' \
	  > .build/constraints.txt
	.build/constraints/bin/python -m pip freeze --disable-pip-version-check --exclude-editable --exclude torch \
	  | grep -Ev '^(nvidia|triton|cuda)' | sort -f >> .build/constraints.txt
	mv .build/constraints.txt constraints.txt

# On a terminal, pip shows its progress. The stamp has the time before the install, and gets its name only after it: an install that failed, was interrupted,
# or ran while pyproject.toml was being edited is repeated.
$(VENV)/installed-%: pyproject.toml $(CONSTRAINTS)
	echo "Installing lorentzrec[$($*_extras)] into $(VENV), once$(if $($*_size),: $($*_size) on disk) ..."
	$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	touch $@.partial
	$(VENV)/bin/python -m pip install $$(test -t 1 || echo -qq) --disable-pip-version-check $(addprefix --constraint ,$(CONSTRAINTS)) \
	  --editable '.[$($*_extras)]'
	$(if $(filter dev,$*),$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-deps \
	  --requirement tests/adapters/requirements.txt)
	mv $@.partial $@

$(VENV)/installed-dev: tests/adapters/requirements.txt

$(VENV)/installed-dev $(VENV)/installed-bench $(VENV)/installed-bench-serve: $(VENV)/installed-demo
