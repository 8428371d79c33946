# The only menu of commands; `make` prints it.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
export REDOCLY_TELEMETRY := off
export REDOCLY_SUPPRESS_UPDATE_NOTICE := true
.DEFAULT_GOAL := help

# Written by npm when an installation is complete, so that one that was interrupted is done again.
packages := node_modules/.package-lock.json
generated := generated

help: ## Print this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

start: $(packages) ## Start the server; settings are environment variables, none is needed (see README.md)
	@exec node main.ts

test: $(packages) ## Run all tests against a real server, PostgreSQL, Redis and browser; installs what is missing
	@node tests/support/prepare.ts
	@vitest run

mutants: $(packages) ## Take every condition on a company or a mode out of the SQL, one at a time, and fail where nothing notices
	@MUTANTS=all vitest run tests/isolation.test.ts

bench: $(packages) ## Measure the figures of docs/performance.md, in about four minutes (see there for what can be changed)
	@node bench/run.ts

check: $(packages) ## Refuse a stale generated/, lint and type errors, broken spec rules and forbidden imports
	@node checks/run.ts

generate: $(packages) ## Derive generated/ from spec/
	@redocly bundle main --output $(generated)/openapi.json >/dev/null 2>&1 || redocly bundle main --output $(generated)/openapi.json
	@cd $(generated) && openapi-typescript openapi.json --output api.ts >/dev/null

format: $(packages) ## Format all code
	@biome check --write . >/dev/null

migrate: $(packages) ## Apply the migrations to DATABASE_URL, or to the embedded database
	@node migrate.ts

docs: $(packages) ## Write the documentation page as one file to docs/api.html, for the address in BASE_URL
	@node docs.ts

platform-key: $(packages) ## Mint an operator's key with the scope onboarding, or revoke one with REVOKE=<its id>
	@REVOKE='$(REVOKE)' node platform-key.ts

$(packages): package.json package-lock.json
	@echo 'Installing packages ...' >&2
	@npm install --no-save --no-progress --loglevel=error >/dev/null
	@touch $@

.PHONY: help start test mutants bench check generate format migrate docs platform-key
