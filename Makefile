# Slipway. `make run` starts everything, `make test` tests everything once, `make test-full` thoroughly.
SHELL     := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MODULES   := ./shared/... ./registry/... ./relay/...
PATH      := $(CURDIR)/.tools/bin:$(PATH)
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE      ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
export CGO_ENABLED = 0
# The relay encrypts with the implementation in Go; without the tag it is built without encryption.
# Releases make manual pages with the tag manpages, and are shipped without what that needs.
# Without the paths of the clone in them, all clones share what is compiled.
OURS      := -tags=goolm,manpages -trimpath
export GOFLAGS := $(filter-out $(OURS),$(GOFLAGS)) $(OURS)

.PHONY: help run messages test test-full test-unit lint fmt tools build bench soak docs site screenshots image release clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

run: tools-run build ## registry on :5000, relay on :8080, a Matrix homeserver on :8008; Ctrl-C stops all
	@tools/run

messages: ## what a person reads in the rooms of the homeserver of `make run`
	@[ -x bin/devhomeserver ] || { echo "make messages: nothing runs yet; start it with: make run" >&2; exit 1; }
	@bin/devhomeserver messages --user you --password-file .run/secrets/person_password --device .run/person

build: ## bin/registry and bin/relay, static
	@mkdir -p bin
	@go build -ldflags '$(LDFLAGS)' -o bin/ ./registry/cmd/registry ./relay/cmd/relay ./relay/cmd/devhomeserver

# A test whose name begins with TestFull_ is only in `make test-full`; nothing else decides.
ifndef SLIPWAY_STARTED
export SLIPWAY_STARTED := $(shell date +%s)
endif
BUILT  = SLIPWAY_E2E_REGISTRY=$(CURDIR)/bin/registry SLIPWAY_E2E_RELAY=$(CURDIR)/bin/relay
TESTED = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
UNITS  = $$($(TESTED) $(MODULES) | grep -v /e2e)
# In CI a test that failed is run up to twice more, unless it shows a data race, and its part names it all the same: one of a
# thousand must not cost an hour.
AGAIN  = $(if $(CI),--rerun-fails=2 --rerun-fails-max-failures=10 --rerun-fails-abort-on-data-race)
CHECK  = gotestsum --format standard-quiet --hide-summary skipped $(AGAIN)
# golangci-lint vets.
ARGS   = -- -vet=off

test: ## linters, unit tests, each capability once end to end with real parts
	@rm -rf bin/failed
	@tools/step tools $(MAKE) -s tools-test
	@tools/step build $(MAKE) -s build
	@$(MAKE) -s -k -j2 test-registry test-relay test-units test-lint || { tools/step --failed; exit 1; }

test-full: ## beside that: the race detector, loads, kills, long faults, the clients and peers that are large
	@rm -rf bin/failed
	@tools/step tools $(MAKE) -s tools
	@tools/step build $(MAKE) -s build
	@$(MAKE) -s -k -j2 test-race test-registry-full test-relay-full || { tools/step --failed; exit 1; }

test-unit: tools-test ## unit tests, without those that need a homeserver or a database
	@go test -short -skip '^TestFull_' $$(go list $(MODULES) | grep -v /e2e)

# More at a time than there are cores, for end-to-end tests mostly wait.
.PHONY: test-lint test-units test-registry test-relay test-race test-registry-full test-relay-full
test-lint:
	@tools/step lint $(MAKE) -s lint-all

test-units:
	@tools/step unit $(CHECK) --packages "$(UNITS)" $(ARGS) -timeout 20m -p 3 -parallel 4 -skip '^TestFull_'

test-registry:
	@$(BUILT) tools/step registry $(CHECK) --packages "$$($(TESTED) ./registry/e2e/...)" $(ARGS) -count=1 -timeout 30m -p 3 -parallel 4 -skip '^TestFull_'

test-relay:
	@$(BUILT) tools/step relay $(CHECK) --packages "$$($(TESTED) ./relay/e2e/... ./deploy/... ./tools/...)" $(ARGS) -count=1 -timeout 30m -p 2 -skip '^TestFull_'

# SQLite, translated from C, runs three times as long when its own reads and writes are watched; ours and the driver's are.
UNWATCHED := $(foreach m,sqlite/lib libc memory,-gcflags=modernc.org/$(m)=-race=false)

test-race:
	@CGO_ENABLED=1 tools/step race $(CHECK) --packages "$(UNITS)" $(ARGS) -race -timeout 30m -p 3 -skip '^TestFull_Model_' $(UNWATCHED)
	@tools/step model $(CHECK) --packages ./registry/internal/maintenance/collect $(ARGS) -timeout 30m -run '^TestFull_Model_'

test-registry-full:
	@$(BUILT) tools/step registry $(CHECK) --packages "$$($(TESTED) ./registry/e2e/...)" $(ARGS) -count=1 -timeout 30m -p 3 -parallel 4 -run '^TestFull_'

test-relay-full:
	@$(BUILT) tools/step relay $(CHECK) --packages "$$($(TESTED) ./relay/e2e/... ./deploy/... ./tools/...)" $(ARGS) -count=1 -timeout 30m -p 2 -run '^TestFull_'

soak: tools build ## what takes long: 1,000 kills, a 10 GiB blob, load, mirrors that are killed, ten minutes of collecting under it, 30 relays lost, hostile Markdown
	@$(BUILT) SLIPWAY_SOAK_KILLS=1000 SLIPWAY_SOAK_BLOB=10 SLIPWAY_SOAK_LOAD=1m SLIPWAY_SOAK_SECONDS=150 go test -count=1 -timeout 2h -v -run '^TestFull_(Kill|HugeBlob|Memory|CollectUnderLoad|S3_ReplicasUnderFaults)' -p 1 ./registry/e2e/load ./registry/e2e/collect | grep -v '^=== '
	@$(BUILT) SLIPWAY_SOAK_KILLS=100 SLIPWAY_SOAK_LAYER=512 go test -count=1 -timeout 1h -v -run '^TestFull_Mirror_(Kill|Memory)' ./registry/e2e/mirror | grep -v '^=== '
	@$(BUILT) SLIPWAY_SOAK_FAILOVERS=30 go test -count=1 -timeout 1h -v -run TestFull_SeveralRelays_DelivererLost ./relay/e2e | grep -v '^=== '
	@go test -run '^$$' -fuzz FuzzBounds -fuzztime 5m ./relay/internal/format
	@SLIPWAY_SOAK_MODEL=1 go test -count=1 -timeout 2h -v -run TestFull_Model_EveryInterleaving ./registry/internal/maintenance/collect

bench: tools build ## CPU per operation, ours beside the registries and relays that are installed, a table each
	@go run ./tools/bench/registry -registry bin/registry
	@go run ./tools/bench/relay -relay bin/relay

lint: tools-test lint-all ## golangci-lint over the modules, shellcheck over the scripts, actionlint, prose

.PHONY: lint-all
lint-all:
	@golangci-lint run ./docs/... ./shared/... ./registry/... ./relay/... ./deploy/... ./tools/...
	@shellcheck tools/install tools/retry tools/ports tools/run tools/prose tools/release tools/site tools/step .ci/run findings/*.sh
	@actionlint
	@tools/prose

docs: ## docs/configuration, docs/reference and the charts' schemas, from what settings, commands and HTTP APIs say of themselves
	@for s in registry relay; do go run ./$$s/cmd/$$s config reference >docs/configuration/$$s.md.new && mv docs/configuration/$$s.md.new docs/configuration/$$s.md; \
	  go run ./$$s/cmd/$$s manual >docs/reference/$$s-commands.md.new && mv docs/reference/$$s-commands.md.new docs/reference/$$s-commands.md; \
	  go run ./tools/apireference $$s/openapi/openapi.yml >docs/reference/$$s-api.md.new && mv docs/reference/$$s-api.md.new docs/reference/$$s-api.md; \
	  go run ./$$s/cmd/$$s config schema | go run ./tools/valuesschema deploy/charts/$$s/values.schema.json; done

site: ## dist/site: the documentation as web pages, for any server of files, with a search in the browser
	@tools/install zensical
	@tools/site

screenshots: tools build ## docs/pictures, from a stack that it starts: light and dark
	@go run ./tools/screenshots -bin bin -crane .tools/bin/crane -out docs/pictures

image: ## the images slipway/registry and slipway/relay
	@for s in registry relay; do docker build -f $$s/Dockerfile -t slipway/$$s -t slipway/$$s:$(VERSION) \
	  --build-arg GOPROXY --build-arg GOSUMDB --build-arg GOFLAGS --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg DATE=$(DATE) .; done

release: ## dist/: archives for linux and darwin, checksums, bills of materials
	@tools/release

fmt: ## gofumpt
	@tools/install gofumpt
	@gofumpt -w docs shared registry relay deploy tools

tools: ## install what the tests use (tools/versions.txt), download the modules
	@{ $(MAKE) -s modules && (cd relay/e2e/alertmanager && GOWORK=off ../../../tools/retry go mod download); } & tools/install run test full; wait $$!

.PHONY: tools-test tools-run modules
tools-test:
	@$(MAKE) -s modules & tools/install run test; wait $$!

modules:
	@tools/retry go list -deps -test $(MODULES) ./deploy/... ./tools/... >/dev/null
	@for d in relay/e2e/clients relay/e2e/collector relay/e2e/generated registry/e2e/clients/generated; do (cd $$d && GOWORK=off "$(CURDIR)"/tools/retry go mod download); done

tools-run:
	@command -v go >/dev/null || { echo "make run: Go is missing; install 1.26 or newer from https://go.dev/dl" >&2; exit 1; }
	@tools/run --check
	@echo "installing what is missing, building and starting; the first time takes some minutes"
	@tools/install run

clean: ## remove what was built and the data of `make run`
	@rm -rf bin dist .run
