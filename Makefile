# The tasks of a developer. A fresh clone needs only Python >= 3.11 and make.

# The first Python on the path that is new enough. PYTHON=/path/to/python3 chooses another.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p $(NEW_ENOUGH) 2>/dev/null && echo $$p && break; done)
ONCE ?=
KEEP ?=
PORT := 8000
OUT ?= out
# For two cores: some tests wait for a server, so a third worker uses the time.
WORKERS ?= 3
SEEDS ?= 1000
FIRST ?= 1
WEBHOOKS ?= 8000
ARTICLES ?= 500
SENDERS ?= 16
SEED ?= 1
# The repository's URL, to which each page of the documentation links. The default is the clone's origin.
REPOSITORY ?= $(shell git config --get remote.origin.url 2>/dev/null | sed 's|^git@\([^:]*\):|https://\1/|; s|\.git$$||')
TEMPLATES := template.yaml template-cdn.yaml template-firewall.yaml .github/deploy-role.yaml docs/how-to/purge.yaml
# A lock is complete, so pip resolves no dependencies. pip cannot hash this package, so a second call installs it.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps
INSTALL_LOCKED := $(PIP_INSTALL) --require-hashes --requirement
INSTALL_SELF := $(PIP_INSTALL) --no-build-isolation --editable .

# Stamp files of successful installations. A newer lock or pyproject.toml makes a stamp out of date.
INSTALLED := .venv/installed
INSTALLED_DEV := .venv/installed-dev
INSTALLED_LINTERS := .venv/linters/installed

# Container images often set this. Each process that a test starts would then compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo play check test deployed build bench bench-quick month cold scale load simulate lint types format lock docs docs-build screenshots release clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

install: $(INSTALLED) ## create .venv with the stoppress command (PYTHON=…: the interpreter)
	@echo "Ready: .venv/bin/stoppress --help"

demo: $(INSTALLED) ## run the whole flow on this machine, then serve it on http://127.0.0.1:8000/ (PORT=…: another port; ONCE=1: do not serve)
	@STOPPRESS_PORT_OPTION="make demo PORT=" .venv/bin/stoppress demo --port $(PORT) $(if $(ONCE),--once)

play: $(INSTALLED) ## play a scenario: make play SCENARIO=file.jsonl (OUT=…: folder for saved files)
	@test -n "$(SCENARIO)" || { echo "Which scenario? make play SCENARIO=path/to/file.jsonl" >&2; exit 2; }
	@.venv/bin/stoppress play "$(SCENARIO)" --out "$(OUT)"

# A script exits with 69 if this machine cannot build. The tests of built functions are then skipped.
# The linters use one core, and the deployed stack is mostly idle, so the other tests run concurrently.
test: $(INSTALLED_DEV) $(INSTALLED_LINTERS) ## run all checks: lint, types, tests of the code and of the SAM build
	@scripts/build && scripts/build native && scripts/build emulator >/dev/null || test $$? -eq 69
	@make --no-print-directory lint types & linters=$$!; \
		.venv/bin/pytest -q tests/deployment/deployed & deployed=$$!; \
		.venv/bin/pytest -n $(WORKERS) --dist worksteal --ignore tests/deployment/deployed; tests=$$?; \
		for job in $$linters $$deployed; do wait $$job || tests=1; done; exit $$tests

deployed: $(INSTALLED_DEV) ## deploy the SAM build to an emulator of AWS, and test it; takes two minutes (KEEP=1: leave it running)
	@scripts/build native && scripts/build emulator >/dev/null
	KEEP=$(KEEP) .venv/bin/pytest -q tests/deployment/deployed

# Slower tests, with moto, SAM or many combinations, run only in `make test`.
check: $(INSTALLED_DEV) ## check a change in less than a minute: style, types, imports, unit tests, scenarios on doubles, ten seeds
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/lint-imports
	.venv/bin/mypy & types=$$!; \
		.venv/bin/pytest -q -n $(WORKERS) --dist worksteal --quick --seeds 10 --pairs 10; tests=$$?; wait $$types && exit $$tests

build: | .venv/bin/pip ## build the functions and the layer into .aws-sam/build (with the pinned SAM CLI in .venv/sam)
	@scripts/build
	@echo "Built: .aws-sam/build"

bench: $(INSTALLED_DEV) ## measure cost, speed and latency, also of other projects if they can be fetched: ten minutes at most
	@.venv/bin/python -m bench

bench-quick: $(INSTALLED_DEV) ## run the faster measurements of bench in less than a minute, and write nothing
	@.venv/bin/python -m bench --quick

month: $(INSTALLED_DEV) ## compute the price of a month for three newsrooms and of feeds; takes minutes (WRITE=1: write it to the docs)
	@.venv/bin/python -m bench.month $(if $(WRITE),--write)

cold: $(INSTALLED_DEV) ## measure the cold start of seven built functions; takes minutes
	@.venv/bin/python -m bench.cold_starts

scale: $(INSTALLED_DEV) ## play an hour of ten thousand sites on doubles of AWS; takes minutes (WRITE=1: write it to the docs)
	@.venv/bin/python -m bench.scale $(if $(WRITE),--write)

load: $(INSTALLED_DEV) ## flood the served stack with signed webhooks while AWS calls fail; takes minutes (WEBHOOKS=…, ARTICLES=…, SENDERS=…, SEED=…)
	@.venv/bin/python -m bench.load --webhooks $(WEBHOOKS) --articles $(ARTICLES) --senders $(SENDERS) --seed $(SEED)

simulate: $(INSTALLED_DEV) ## run the whole flow under crashes and reordering (SEEDS=…, FIRST=…)
	.venv/bin/pytest -q -n $(WORKERS) --dist worksteal tests/simulation/test_seeds.py -k newsroom \
		--seeds $(SEEDS) --first-seed $(FIRST)

lint: $(INSTALLED_DEV) $(INSTALLED_LINTERS) ## check style; check templates and workflows for form and security
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/lint-imports
	.venv/bin/cfn-lint $(TEMPLATES)
	scripts/lint-security $(TEMPLATES)
	.venv/linters/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.venv/linters/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	.venv/linters/bin/zizmor --offline --quiet .github/workflows

types: $(INSTALLED_DEV) ## check types, strictly
	.venv/bin/mypy

format: $(INSTALLED_DEV) ## format the code, and fix what ruff can fix
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

# requirements.lock serves Python 3.11 to 3.13 on Linux and macOS. The layer's list has only packages that the functions import,
# without those of the Lambda runtime (boto3 and its dependencies: 19 MB in every cold start).
# With a hash for each file, pip rejects a file that was replaced.
COMPILE := .venv/bin/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links \
	--annotation-style line --custom-compile-command "make lock"
lock: | .venv/bin/pip ## pin the newest versions that fit together, for development, for the Lambda layer and for the tools that build it
	.venv/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) pyproject.toml --extra dev --universal --python-version 3.11 --output-file requirements.lock
	$(COMPILE) pyproject.toml --extra cli --constraint requirements.lock --universal --python-version 3.11 --output-file scripts/cli.lock
	$(COMPILE) scripts/linters.in --universal --python-version 3.11 --output-file scripts/linters.lock
	$(COMPILE) pyproject.toml --constraint requirements.lock --python-version 3.13 --python-platform aarch64-unknown-linux-gnu \
		--no-annotate $(foreach name,boto3 botocore s3transfer python-dateutil six,--no-emit-package $(name)) \
		--output-file shared/requirements.txt
	echo cryptography | $(COMPILE) --constraint requirements.lock --python-version 3.13 --python-platform aarch64-unknown-linux-gnu \
		--no-annotate --output-file functions/notify_engines/requirements.txt - >/dev/null
	printf '%s\n' ministack aws-sam-translator | $(COMPILE) --universal --python-version 3.13 --output-file scripts/ministack.lock - >/dev/null
	echo aws-sam-cli | $(COMPILE) --universal --python-version 3.11 --output-file scripts/sam.lock - >/dev/null
	printf '%s\n' awslambdaric boto3 | $(COMPILE) --constraint requirements.lock --python-version 3.13 \
		--python-platform x86_64-unknown-linux-gnu --no-annotate --output-file scripts/runtime.lock - >/dev/null

docs: $(INSTALLED_DEV) ## write the generated parts of the documentation, and serve it on http://localhost:8000/
	.venv/bin/python -m tests.docs.generated
	.venv/bin/zensical serve

screenshots: $(INSTALLED_DEV) ## renew the documentation's images of the editors' page and of terminals (needs Chromium)
	.venv/bin/pytest -q tests/browser tests/cli/test_terminal.py --screenshots

docs-build: $(INSTALLED_DEV) ## build the documentation into site/; a broken link or anchor fails (REPOSITORY=…: the URL that it links to)
	@{ cat zensical.toml; test -z "$(REPOSITORY)" || \
		printf '\n[[project.extra.social]]\nicon = "fontawesome/brands/git-alt"\nname = "Source code"\nlink = "%s"\n' "$(REPOSITORY)"; } > .zensical.toml
	.venv/bin/zensical build --strict --config-file .zensical.toml; built=$$?; rm .zensical.toml; exit $$built

release: ## create the annotated tag of this version, if pyproject.toml, CHANGELOG.md and template.yaml agree on it
	@scripts/release

clean: ## remove .venv and all other files that make creates
	rm -rf .venv .aws-sam .pytest_cache .mypy_cache .ruff_cache .hypothesis bench/.peers out site .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/pip:
	@test -n "$(PYTHON)" && "$(PYTHON)" $(NEW_ENOUGH) || { \
		echo "Stoppress needs Python 3.11 or newer, and $(or $(PYTHON),python3) is not. Give its path: make install PYTHON=/path/to/python3.13" >&2; \
		exit 1; }
	@"$(PYTHON)" -m venv --clear .venv || { \
		echo "$(PYTHON) could not create a virtual environment; on Debian and Ubuntu this needs the package python3-venv." >&2; \
		exit 1; }

$(INSTALLED): pyproject.toml scripts/cli.lock | .venv/bin/pip
	@echo "Installing the dependencies of the command into .venv, a minute at most the first time ..."
	@.venv/bin/python $(INSTALL_LOCKED) scripts/cli.lock
	@.venv/bin/python $(INSTALL_SELF)
	@touch $@

$(INSTALLED_DEV): pyproject.toml requirements.lock | .venv/bin/pip
	@echo "Installing the dependencies of the checks and tests into .venv, a minute at most the first time ..."
	@.venv/bin/python $(INSTALL_LOCKED) requirements.lock
	@.venv/bin/python $(INSTALL_SELF)
	@touch $(INSTALLED) $@

# The linters have their own virtual environment, because checkov needs other versions of packages such as boto3 than the tests.
$(INSTALLED_LINTERS): scripts/linters.lock | .venv/bin/pip
	@echo "Installing the linters of template and workflows into .venv/linters, a minute at most the first time ..."
	@.venv/bin/python -m venv .venv/linters
	@.venv/linters/bin/python $(INSTALL_LOCKED) scripts/linters.lock
	@touch $@
