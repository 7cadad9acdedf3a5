# The project's commands. `make` alone lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
PLUGINS := $(patsubst %/main.go,./%,$(wildcard plugins/*-*/main.go))
TOOLS := $(BIN)/tools
export PATH := $(TOOLS):$(PATH)

# Without git, or in a clone that belongs to another user, Go cannot stamp the
# revision into programs, and the build would fail.
ifneq ($(shell git rev-parse HEAD >/dev/null 2>&1 && echo yes),yes)
export GOFLAGS := $(GOFLAGS) -buildvcs=false
endif

# As dist builds. Linking without C takes a quarter less, and make test links some eighty
# programs; the race detector needs C, and so what runs with C is tested too.
export CGO_ENABLED ?= 0

# Pinned tools; .ci/run and developers use the same ones.
GOLANGCI_LINT := v2.15.0
APIDIFF := v0.0.0-20260908205506-85c1c2202aba
GO_LICENSES := v1.6.0
BUF := v1.50.0
GOTESTSUM := v1.13.0
GOVULNCHECK := v1.9.0
PROTOC_GEN_GO := v1.36.12
PROTOC_GEN_GO_GRPC := v1.6.2

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z_-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# go build names each package that it compiles; a line for a hundred shows that it goes on.
BUILD = set -o pipefail; go build -v -ldflags=-w -o $(1) 2>&1 | awk '/[ \#]/ {print} !/[ \#]/ && ++n % 100 == 0 {print "compiled " n " packages"} {fflush()}' >&2

.PHONY: build
build: ## Build the command into bin/ and the plugins into bin/plugins/
	@mkdir -p $(BIN)/plugins
	@echo "building the command and the plugins (a minute or two the first time)"
	@$(call BUILD,$(BIN)/stepfall ./adapters/cli/stepfall)
	@$(call BUILD,$(BIN)/plugins/ $(PLUGINS))

.PHONY: demo
demo: build ## Solve the bundled tasks with a cascade, and compare it with always asking the best model
	$(BIN)/stepfall demo

.PHONY: no-harm
no-harm: ## Replay every shipped policy and Go snippet, and compare it with mixes of single models
	go test ./adapters/cli -count=1 -run SnippetsAreCurrent -write-no-harm
	go test ./adapters/cli -count=1 -v -run 'NoHarm' -write-no-harm

.PHONY: paper
paper: build ## Reproduce the paper's tables and figures into docs/results
	$(BIN)/stepfall dev paper all --out docs/results

.PHONY: proof
proof: build ## Measure every method on every table in ../shared/data, and write docs/results/board.md
	$(BIN)/stepfall dev paper board --out docs/results

# REAL=1 asks real models, with the keys in the environment; TASKS=10 runs ten tasks of each agent.
.PHONY: agents
agents: build ## Run three agents with tools by every documented integration, and measure savings and failures
	@PATH="$(BIN):$$PATH" STEPFALL_PLUGIN_PATH=$(BIN)/plugins $(if $(REAL),,OPENAI_API_KEY=scripted ANTHROPIC_API_KEY=scripted MISTRAL_API_KEY=scripted) \
	  go test ./adapters/internal/agents -run 'MeasureRoads$$' -count=1 -v -timeout 6h -args -measure $(if $(REAL),-real) -tasks $(or $(TASKS),120) $(if $(REAL)$(TASKS),,-out $(CURDIR)/docs/results/agents-bench.md)

.PHONY: swe-bench
swe-bench: build ## Run the bundled SWE suite with scripted models: check every task, then compare strategies
	STEPFALL_SUITE=all go test -count=1 ./adapters/internal/suite
	.ci/swe-bench $(BIN)

# With AGAIN=1, as in CI on shared machines, up to three failed tests are run once more by
# themselves and listed. A data race is never retried.
# PACKAGES="./sdk/..." tests only those. The slowest packages start first: at the end of
# the list they would run alone, mostly one test after the other. Many wait for databases,
# time-outs and kills, and so more of them run at once than there are processors; where they
# try every attack they wait less, and tests about time would fail more often. Vet is left to
# make lint, which has the same packages vetted whole: here it reads all dependencies first.
SLOWEST := ./plugins/verifier-tests/internal/verify ./adapters/cli ./adapters/internal/swe ./sdk/jail/container
ALL := ./...
PACKAGES := $(SLOWEST) $(ALL)
AT_ONCE := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))))
GOTEST = go test $(1) -vet=off -timeout 30m $(PACKAGES)
ifdef AGAIN
test race: $(TOOLS)/gotestsum-$(GOTESTSUM)
GOTEST = $(TOOLS)/gotestsum-$(GOTESTSUM) --jsonfile $(BIN)/$@.json --format pkgname --hide-summary skipped --packages "$(PACKAGES)" \
  --rerun-fails=1 --rerun-fails-max-failures 3 --rerun-fails-abort-on-data-race --rerun-fails-report $(BIN)/failed-once.txt -- $(1) -vet=off -timeout 30m
endif

# Most tests and compilations keep little, and collect garbage often: with more of it they take a
# tenth less of the processor. The limit keeps those that make much from taking a small machine's
# memory; SQLite is compiled in three quarters of a GiB.
build test race: export GOGC ?= 400
build test race: export GOMEMLIMIT ?= 1GiB

.PHONY: test
test: ## Run all tests
	$(call GOTEST,$(if $(filter all,$(STEPFALL_ATTACKS)),,-p $(AT_ONCE)))

.PHONY: short
short: ## Run the fast tests: no attacks, databases, containers or whole tasks
	go test -short -skip '^TestAttack|^TestContainer|ByWorkers$$|WithoutAHome$$' $$(go list ./... | grep -v -e /docs -e /examples/ -e /adapters/internal/suite \
	  -e /adapters/internal/tasks -e /adapters/internal/swe -e /adapters/internal/queue -e /adapters/postgres -e /jail/container)

.PHONY: attacks
attacks: ## Try every attack on verdicts and isolation, and print the result of each
	.ci/attacks

# The packages that start goroutines or serve HTTP, in their code or in their tests.
CONCURRENT = $(shell grep -rlE --include='*.go' '^\s*go [a-z]|\.Go\>|synctest\.|httptest\.New|RunParallel' sdk middleware policies plugins adapters \
  | grep -vE '^adapters/(internal/(mutants|paper)|provider/real|gateway/(clients|peers))/' | xargs -n1 dirname | sort -u | sed 's,^,./,')

.PHONY: race
race: export CGO_ENABLED = 1
race: PACKAGES = $(SLOWEST) ./sdk/fit $(CONCURRENT)
race: ## Run the short tests of concurrent packages under the race detector
	$(call GOTEST,-race -short -p $(AT_ONCE))

.PHONY: chaos
chaos: ## Kill replicas and workers, restart and hang PostgreSQL for CHAOS (1m); fail if a cap is exceeded or a job lost
	go test ./adapters/cli -run 'TestChaos$$' -count=1 -v -timeout 30m -args -chaos $(or $(CHAOS),1m)

.PHONY: rates
rates: ## Measure the throughput of gateways without accounts and with accounts in PostgreSQL (one, and two sharing a cap), and of the queue
	go test ./adapters/cli -run 'TestRates$$' -count=1 -v -args -rates 3s
	go test ./adapters/internal/queue -run '^$$' -bench TenMilliseconds -benchtime 2000x

.PHONY: scale
scale: ## Measure how fast the pages of stepfall view load with STEPS (1000000) steps, in SQLite and PostgreSQL
	go test ./adapters/internal/view -run 'TestScale$$' -count=1 -v -timeout 60m -args -steps $(or $(STEPS),1000000)

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: export GOGC ?= 400
lint: export GOMEMLIMIT ?= 3GiB
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT) ## Run the linters
	$< run ./...

.PHONY: tidy-check
tidy-check: ## Fail if go.mod or go.sum is not tidy
	go mod tidy -diff

.PHONY: generate
generate: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## Regenerate the code of the plugin protocol
	sdk/plugin/generate.sh

.PHONY: generate-check
generate-check: ## Fail if the committed code is not what its sources generate
	@if ! command -v protoc >/dev/null; then echo "protoc is not installed: generated code is not checked"; exit 0; fi; \
	$(MAKE) --no-print-directory $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc && \
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && sdk/plugin/generate.sh "$$dir" && \
	diff -ru sdk/plugin/internal/pluginv1 "$$dir" && echo "generated code is up to date"
	@$(MAKE) --no-print-directory $(TOOLS)/buf-$(BUF) || { echo "buf cannot be had: the protocol is not checked"; exit 0; }; \
	against=$$(git describe --tags --abbrev=0 2>/dev/null || git rev-parse -q --verify main || git rev-parse HEAD); \
	$(TOOLS)/buf-$(BUF) lint sdk/plugin/proto && \
	$(TOOLS)/buf-$(BUF) breaking sdk/plugin/proto --against ".git#ref=$$against,subdir=sdk/plugin/proto" && \
	echo "the protocol breaks nothing since $$against"

# Each run is kept with its commit, to be compared with benchstat or by eye. Machines
# differ, so compare ratios within one run.
.PHONY: bench
bench: ## Run the benchmarks, with allocations, and append the results to docs/bench-history.txt
	{ echo "# $$(git rev-parse --short HEAD 2>/dev/null) $$(date -u +%Y-%m-%dT%H:%MZ)"; go test -run '^$$' -bench . -benchmem ./... | grep -v -e '^PASS' -e '^ok' -e 'no test files'; } | tee -a docs/bench-history.txt

# PKG=./sdk/step. Changes that no test notices are printed with file and line. SAMPLE=200 tries 200 of them, drawn with SEED. ALL=1 includes long tests.
.PHONY: mutants
mutants: ## Mutation testing: change the code of PKG in many small ways and count how many its tests notice
	@[ -n "$(PKG)" ] || { echo "make mutants PKG=./sdk/step"; exit 2; }
	@go run ./adapters/internal/mutants $(if $(ALL),-all) -sample $(or $(SAMPLE),0) -seed $(or $(SEED),1) $(PKG)

# A short time each. Add what a longer run finds to the seeds.
FUZZTIME := 10s
.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME (10s) each
	@set -eo pipefail; go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do \
	  for f in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go 2>/dev/null | cut -d' ' -f2); do \
	    echo "$$pkg $$f"; go test "$$pkg" -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) | tail -n 1; done; done

.PHONY: vuln
vuln: ## Look for known vulnerabilities in the dependencies
	@$(MAKE) --no-print-directory $(TOOLS)/govulncheck-$(GOVULNCHECK) >/dev/null 2>&1 || { echo "govulncheck cannot be had: not checked"; exit 0; }; \
	out=$$($(TOOLS)/govulncheck-$(GOVULNCHECK) ./... 2>&1); status=$$?; \
	if [ $$status != 0 ] && grep -qiE 'fetching vulnerabilities|no such host|connection refused|proxyconnect|status 40|Forbidden' <<<"$$out"; then echo "the database of vulnerabilities cannot be reached: not checked"; exit 0; fi; \
	echo "$$out" | tail -n 20; exit $$status

# Building it takes minutes, so an installed one of the same version is used.
$(TOOLS)/golangci-lint-$(GOLANGCI_LINT):
	@mkdir -p $(TOOLS)
	@for have in "$$(command -v golangci-lint)" "$$(go env GOPATH)/bin/golangci-lint"; do \
	  if [ -x "$$have" ] && [ "v$$("$$have" version --short 2>/dev/null)" = $(GOLANGCI_LINT) ]; then ln -s "$$have" $@; exit 0; fi; done; \
	echo "building golangci-lint $(GOLANGCI_LINT)"; \
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT) && mv $(TOOLS)/golangci-lint $@

.PHONY: clients
clients: ## Call the gateway with the official clients of npm, PyPI and Go, Claude Code and Codex; print the table of docs/gateway.md
	go test -tags clients ./adapters/gateway/clients -count=1 -v -timeout 30m -clients

.PHONY: modules
modules: ## Test the examples that have their own go.mod
	@for name in $(notdir $(patsubst %/go.mod,%,$(wildcard examples/*/go.mod))); do (dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cd examples/$$name && cp go.mod go.sum "$$dir" && \
	{ go mod download -modfile="$$dir/go.mod" >/dev/null 2>&1 || { echo "the modules of $$name cannot be had: not tested"; exit 0; }; \
	go test -mod=mod -modfile="$$dir/go.mod" .; }) || exit 1; done

.PHONY: real
real: ## Run a real small model from PyPI on this machine and measure its confidences (minutes; docs/results/real-model.md)
	go test ./adapters/provider/real -count=1 -v -timeout 60m -real -update

.PHONY: real-clients
real-clients: ## Call the real small model with each client, without measurements, as in CI
	go test ./adapters/provider/real -run Clients -count=1 -v -timeout 20m -real

.PHONY: peers
peers: ## Compare the gateway's speed with a plain proxy, Portkey, LiteLLM and cascadeflow, before the same local upstream
	go test ./adapters/gateway/peers -count=1 -v -timeout 60m -peers

.PHONY: docs-check
docs-check: ## Check the links, code blocks and commands in the documentation
	go test ./docs/...

.PHONY: new-user-log
new-user-log: ## Run docs/walks as on a fresh machine and write docs/new-user-log.md
	go test ./docs -count=1 -timeout 60m -run NewUserLog -update -fresh

.PHONY: api-check
api-check: ## List incompatible API changes since the last tag
	@tag=$$(git describe --tags --abbrev=0 2>/dev/null) || { echo "no tag yet: nothing to compare with"; exit 0; }; \
	$(MAKE) --no-print-directory $(TOOLS)/apidiff-$(APIDIFF) && \
	old=$$(mktemp -d) && trap 'git worktree remove --force "$$old/tree"; rm -rf "$$old"' EXIT && \
	git worktree add -q --detach "$$old/tree" "$$tag" && \
	(cd "$$old/tree" && $(TOOLS)/apidiff-$(APIDIFF) -m -w "$$old/api" github.com/stepfall/stepfall) && \
	$(TOOLS)/apidiff-$(APIDIFF) -m -incompatible "$$old/api" github.com/stepfall/stepfall

.PHONY: licences
licences: $(TOOLS)/go-licenses-$(GO_LICENSES) ## Write docs/licences.csv: the licence of every module that the command and the plugins link
	{ echo "module,licence"; $< report --ignore github.com/stepfall ./adapters/cli/stepfall ./plugins/... 2>/dev/null \
	  | awk -F, '{print $$1 "," $$3}' | LC_ALL=C sort; } > docs/licences.csv

# One archive for each released platform, with the licences of the linked modules.
# Binaries and archives hold no paths, build ids or times, so that anyone can build
# the same bytes.
.PHONY: dist
dist: ## Build the release archives and their checksums into dist/
	rm -rf dist && mkdir -p dist
	@set -e; for target in linux/amd64 linux/arm64 darwin/arm64; do \
	  name=stepfall-$${target%/*}-$${target#*/}; mkdir -p dist/$$name/plugins; \
	  echo "building $$name"; \
	  export CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/}; \
	  go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o dist/$$name/stepfall ./adapters/cli/stepfall; \
	  for p in plugins/*-*; do go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o dist/$$name/plugins/ ./$$p; done; \
	  cp LICENSE README.md CHANGELOG.md dist/$$name/; \
	  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./adapters/cli/stepfall ./plugins/... | sort -u \
	  | while read -r module dir; do mkdir -p dist/$$name/licences/$$module; \
	    find "$$dir" -maxdepth 1 -iregex '.*/\(licen[cs]e\|copying\|notice\)[^/]*' -exec cp -r {} dist/$$name/licences/$$module/ \; ; done; \
	  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C dist -cf - $$name | gzip -n > dist/$$name.tar.gz; \
	  rm -r dist/$$name; done
	cd dist && sha256sum *.tar.gz > SHA256SUMS && cat SHA256SUMS

$(TOOLS)/gotestsum-$(GOTESTSUM):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install gotest.tools/gotestsum@$(GOTESTSUM)
	@mv $(TOOLS)/gotestsum $@

$(TOOLS)/apidiff-$(APIDIFF):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install golang.org/x/exp/cmd/apidiff@$(APIDIFF)
	@mv $(TOOLS)/apidiff $@

$(TOOLS)/go-licenses-$(GO_LICENSES):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/google/go-licenses@$(GO_LICENSES)
	@mv $(TOOLS)/go-licenses $@

.PHONY: pictures
pictures: build ## Redraw docs/pictures (needs graphviz; pages need Chromium)
	for p in docs/pictures/*.dot; do dot -Tsvg $$p > $${p%.dot}.svg; done
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(BIN)/stepfall demo --out "$$dir" > /dev/null && \
	go test ./adapters/internal/view -run Pictures -args -traces "$$dir/traces.jsonl" -pictures "$(CURDIR)/docs/pictures"

# The charting library of the pages, from npm, pinned by version and checksum.
UPLOT := 1.6.32
UPLOT_SHA512 := KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==

.PHONY: charts
charts: ## Fetch the charting library of the pages again (needs npm)
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && (cd "$$dir" && npm pack --silent uplot@$(UPLOT) > /dev/null) && \
	sum=$$(openssl dgst -sha512 -binary "$$dir"/uplot-*.tgz | base64 -w0) && \
	{ [ "$$sum" = "$(UPLOT_SHA512)" ] || { echo "the package has another checksum: $$sum"; exit 1; }; } && \
	tar -xzf "$$dir"/uplot-*.tgz -C "$$dir" && to=adapters/internal/view/assets && \
	cp "$$dir/package/dist/uPlot.iife.min.js" $$to/uplot.js && cp "$$dir/package/dist/uPlot.min.css" $$to/uplot.css && cp "$$dir/package/LICENSE" $$to/uplot.LICENSE

$(TOOLS)/buf-$(BUF):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/bufbuild/buf/cmd/buf@$(BUF)
	@mv $(TOOLS)/buf $@

$(TOOLS)/govulncheck-$(GOVULNCHECK):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	@mv $(TOOLS)/govulncheck $@

$(TOOLS)/protoc-gen-go:
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO)

$(TOOLS)/protoc-gen-go-grpc:
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC)
