# The only menu of commands; `make` prints it.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
export REDOCLY_TELEMETRY := off
export REDOCLY_SUPPRESS_UPDATE_NOTICE := true
.DEFAULT_GOAL := help

# Written when an installation is complete and mended by patches/, so that one that was interrupted is done again. What patches mend is
# installed anew: another patch fits only what was never mended.
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
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

start: $(packages) $(built) ## Start the server; settings are environment variables, none is needed (docs/settings.md)
	@exec env $(run) $(program)

build: $(packages) $(built) ## Compile the server and its commands into dist/, as make start and the image run them
	@:

test: $(packages) ## Run all tests, or those of AREA=messaging, against a real server, PostgreSQL, Redis and browser
	@node tests/support/prepare.ts
	@vitest run $(if $(AREA),tests/$(AREA)/)

torture: $(packages) ## Kill, pause and cut off everything under writers for TORTURE_SECONDS (600), and compare what was acknowledged (SEED, KILLS, FAULTS)
	@node tests/faults/torture.ts
mutants: $(packages) ## Take every condition on a company or a mode out of the SQL, one at a time, and fail where nothing notices
	@MUTANTS=all vitest run tests/isolation/isolation.test.ts

bench: $(packages) $(built) ## Measure the figures of docs/performance.md, in twelve minutes with ROUNDS=4 (see there for what can be changed)
	@node bench/run.ts

seed-large: $(packages) ## Fill the database of the figures search, list-page and list-orders: SEED_ROWS leads (1000000) and a hundred other workspaces
	@node bench/seed-large.ts

check: $(packages) ## Refuse a stale generated/, lint and type errors, broken spec rules and forbidden imports
	@node checks/run.ts

generate: $(packages) ## Derive generated/ and the client's part of sdk/ from spec/
	@redocly bundle main --output $(generated)/openapi.json >/dev/null 2>&1 || redocly bundle main --output $(generated)/openapi.json
	@cd $(generated) && openapi-typescript openapi.json --output api.ts >/dev/null
	@# For callers, who may leave out what has a default.
	@cd $(generated) && openapi-typescript openapi.json --default-non-nullable=false --output $(abspath $(sdk_generated))/api.ts >/dev/null
	@node sdk/generators/main.ts $(generated)/openapi.json typescript $(sdk_generated)/operations.ts

schema: $(packages) ## Derive db/schema.sql from db/migrations/, with an embedded database of its own
	@node cli/schema.ts

sdk: $(packages) ## Build the client as a package in sdk/, to be published with npm publish ./sdk
	@rm -rf sdk/dist && node node_modules/typescript-7/bin/tsc -p sdk && cp LICENSE sdk/dist/

sdks: $(packages) ## Write the clients for Python, Go, Java and PHP in sdk/<language>/
	@node sdk/generators/main.ts $(generated)/openapi.json others sdk

format: $(packages) ## Format all code
	@biome check --write . >/dev/null

migrate: $(packages) ## Apply the migrations to DATABASE_URL, or to the embedded database
	@node cli/migrate.ts

docs: $(packages) ## Write the documentation page as one file to docs/api.html, for the address in BASE_URL
	@node cli/docs-page.ts

platform-key: $(packages) ## Mint an operator's key with the scope onboarding, or revoke one with REVOKE=<its id>
	@REVOKE='$(REVOKE)' node cli/platform-key.ts

rotate-signing-key: $(packages) ## Change the key that signs tokens, by STEP=publish, sign and retire (docs/operations.md)
	@STEP='$(STEP)' node cli/rotate-signing-key.ts

$(packages): package.json package-lock.json $(wildcard patches/*)
	@rm -rf $(foreach patch,$(wildcard patches/*),node_modules/$(firstword $(subst +, ,$(notdir $(patch)))))
	@node cli/install.js
	@patch-package --error-on-fail >/dev/null
	@touch $@

# If the folder cannot be written, the server still starts (see program above).
$(built): $(packages) $(server_sources)
	@echo 'Building dist/, some seconds ...' >&2
	@node cli/build.ts || echo 'The server runs from its sources.' >&2

.PHONY: help start build test torture mutants bench seed-large check generate schema sdk sdks format migrate docs platform-key rotate-signing-key
