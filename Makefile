# The only menu of commands; `make` prints it.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
export REDOCLY_TELEMETRY := off
export REDOCLY_SUPPRESS_UPDATE_NOTICE := true
.DEFAULT_GOAL := help

# Written when an installation is complete and patched, so that an interrupted one is repeated. Patched packages are installed again
# first, because a changed patch applies only to the original files.
packages := node_modules/.complete
generated := generated
sdk_generated := sdk/src/generated
# What `make build` writes last, and what it is made from. Folders are listed too: they change if a file in them is removed.
built := dist/main.js
server_folders := $(filter-out bench checks dist docs node_modules patches sdk spec tests,$(patsubst %/,%,$(wildcard */)))
server_sources := main.ts generated/openapi.json tsconfig.json tsconfig.build.json $(shell find $(server_folders) -type d -o -name '*.ts' -o -name '*.sql')

# A bounded heap with a young generation of moderate size, and two heaps of the C library for all threads (docs/performance.md has settings for less memory).
node_flags := --max-semi-space-size=16 --max-old-space-size=1024
run := MALLOC_ARENA_MAX=2 node $(node_flags)
# The build, or the sources if it is stale because the folder cannot be written. Node then removes the types itself.
program = $(if $(filter 0,$(shell $(MAKE) --question $(built) >/dev/null 2>&1; echo $$?)),$(built),main.ts)

help: ## Print this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

start: $(packages) $(built) ## Start the server; all settings are optional environment variables (docs/settings.md)
	@exec env $(run) $(program)

build: $(packages) $(built) ## Compile the server and its commands into dist/, which make start and the image run
	@:

test: $(packages) ## Run all tests, or only AREA=messaging, against a real server, PostgreSQL, Redis and browser
	@node tests/support/prepare.ts
	@vitest run $(if $(AREA),tests/$(AREA)/)

torture: $(packages) ## Inject faults under concurrent writers for TORTURE_SECONDS (600), and verify acknowledged writes (SEED, KILLS, FAULTS)
	@node tests/faults/torture.ts
mutants: $(packages) ## Remove each tenant condition from the SQL, one at a time, and fail if no test notices
	@MUTANTS=all vitest run tests/isolation/isolation.test.ts

bench: $(packages) $(built) ## Measure the figures of docs/performance.md; takes twelve minutes with ROUNDS=4
	@node bench/run.ts

seed-large: $(packages) ## Fill the benchmark database with SEED_ROWS leads (1000000) and a hundred other workspaces
	@node bench/seed-large.ts

check: $(packages) ## Run all static checks: generated files, lint, types, spec rules and imports
	@node checks/run.ts

generate: $(packages) ## Generate generated/ and the client code in sdk/ from spec/
	@redocly bundle main --output $(generated)/openapi.json >/dev/null 2>&1 || redocly bundle main --output $(generated)/openapi.json
	@# Types have the results of calls that take effect. A proposal is thrown by the client.
	@redocly bundle main --skip-decorator=crm/proposals --output $(generated)/results.json >/dev/null 2>&1
	@cd $(generated) && openapi-typescript results.json --output api.ts >/dev/null
	@# For callers, who may leave out what has a default.
	@cd $(generated) && openapi-typescript results.json --default-non-nullable=false --output $(abspath $(sdk_generated))/api.ts >/dev/null
	@rm $(generated)/results.json
	@node sdk/generators/main.ts $(generated)/openapi.json typescript $(sdk_generated)/operations.ts

schema: $(packages) ## Generate db/schema.sql from db/migrations/
	@node cli/schema.ts

sdk: $(packages) ## Build the TypeScript client in sdk/; publish it with npm publish ./sdk
	@rm -rf sdk/dist && node node_modules/typescript-7/bin/tsc -p sdk && cp LICENSE sdk/dist/

sdks: $(packages) ## Generate the clients for Python, Go, Java and PHP in sdk/<language>/
	@node sdk/generators/main.ts $(generated)/openapi.json others sdk

hooks: $(packages) ## Let git check the subjects of your commits (CONTRIBUTING.md)
	@git config core.hooksPath checks/git-hooks

format: $(packages) ## Format all code
	@biome check --write . >/dev/null

migrate: $(packages) ## Apply the migrations to DATABASE_URL, or to the embedded database
	@node cli/migrate.ts

docs: $(packages) ## Write the documentation page to docs/api.html, for the server at BASE_URL
	@node cli/docs-page.ts

platform-key: $(packages) ## Create an operator key with the scope onboarding, or revoke one with REVOKE=<id>
	@REVOKE='$(REVOKE)' node cli/platform-key.ts

rotate-signing-key: $(packages) ## Rotate the key that signs tokens with STEP=publish, sign and retire (docs/operations.md)
	@STEP='$(STEP)' node cli/rotate-signing-key.ts

$(packages): package.json package-lock.json $(wildcard patches/*)
	@rm -rf $(foreach patch,$(wildcard patches/*),node_modules/$(firstword $(subst +, ,$(notdir $(patch)))))
	@node cli/install.js
	@patch-package --error-on-fail >/dev/null
	@touch $@

# If the folder cannot be written, the server still starts (see program above).
$(built): $(packages) $(server_sources)
	@echo 'Building dist/ (takes a few seconds) ...' >&2
	@node cli/build.ts || echo 'The server runs from its sources.' >&2

.PHONY: help start build test torture mutants bench seed-large check generate schema sdk sdks hooks format migrate docs platform-key rotate-signing-key
