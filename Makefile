# make run      everything on this machine: http://127.0.0.1:$(PORT)
# make test     installs what tests need, then lint, types and the suite
# make traffic  drives the running instance with several tenants
# make manage   a command beside the running instance: ARGS="tenant list"
# make verify   every figure at full size, into docs/figures.md (up to an hour)
# make bench    CPU per call and chunk beside nginx, vllm-router and litellm
# make clients  many clients of the two APIs, unchanged, against this gateway; docs/clients.md
# make simulate policies against scenarios in virtual time: ARGS="--scenario hot --out var/simulation"

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV = .venv/bin/python

run:
	@$(PYTHON) deploy/install.py run
	@exec $(VENV) -m deploy.run

test:
	@$(PYTHON) deploy/install.py test
	@exec $(VENV) -m deploy.test

traffic:
	@$(PYTHON) deploy/install.py run
	@exec $(VENV) -m deploy.traffic $(ARGS)

manage:
	@$(PYTHON) deploy/install.py run
	@exec $(VENV) -m deploy.manage $(ARGS)

simulate:
	@$(PYTHON) deploy/install.py run
	@FAIRWAY_DEBUG=true exec $(VENV) manage.py simulate $(ARGS)

verify:
	@$(PYTHON) deploy/install.py test
	@exec $(VENV) -m deploy.verify $(ARGS)

bench:
	@$(PYTHON) deploy/install.py test
	@exec $(VENV) -m deploy.bench $(ARGS)

clients:
	@$(PYTHON) deploy/install.py test
	@exec $(VENV) -m deploy.clients

constraints:
	@$(PYTHON) deploy/install.py test
	@$(VENV) -m deploy.freeze

.PHONY: run test traffic manage verify bench clients simulate constraints
