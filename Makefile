# The only menu of commands; `make` prints it.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
.DEFAULT_GOAL := help

help: ## Print this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

start: node_modules ## Start the server on embedded defaults; prints the docs address, a key and one curl to try
	@node main.ts

test: node_modules ## Run all tests against a real server, PostgreSQL, Redis and browser; installs what is missing
	@node tests/support/prepare.ts
	@vitest run

check: node_modules ## Refuse a stale generated/, lint and type errors, broken spec rules and forbidden imports
	@node runtime/check.ts

generate: node_modules ## Derive generated/ from spec/
	@redocly bundle main --output generated/openapi.json >/dev/null 2>&1 || redocly bundle main --output generated/openapi.json
	@cd generated && openapi-typescript openapi.json --output api.ts >/dev/null

format: node_modules ## Format all code
	@biome check --write . >/dev/null

migrate: node_modules ## Apply the migrations to DATABASE_URL, or to the embedded database
	@node db/migrate-command.ts

docs: node_modules ## Write the documentation page as one file to docs/api.html
	@node runtime/docs-command.ts

platform-key: node_modules ## Mint an operator's key with the scope onboarding
	@node platform-key.ts

node_modules: package.json package-lock.json
	@npm install --no-save --no-progress --loglevel=error
	@touch node_modules

.PHONY: help start test check generate format migrate docs platform-key
