# The door to the project. `make` alone prints what there is.

SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
TOOLS := $(BIN)/tools
export PATH := $(TOOLS):$(PATH)

# Pinned tools; .ci/run and developers use the same ones.
GOLANGCI_LINT := v2.15.0
PROTOC_GEN_GO := v1.36.12
PROTOC_GEN_GO_GRPC := v1.6.2

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z_-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the command into bin/ and the plugins into bin/plugins/
	@mkdir -p $(BIN)/plugins
	go build -o $(BIN)/stepfall ./adapters/cli/stepfall
	@for p in $$(ls -d plugins/*-* 2>/dev/null); do [ -f $$p/main.go ] || continue; go build -o $(BIN)/plugins/ ./$$p || exit 1; done

.PHONY: demo
demo: build ## Solve the bundled tasks with a cascade, beside the always-best model
	$(BIN)/stepfall demo

.PHONY: test
test: ## Run every test
	go test ./...

.PHONY: race
race: ## Run every test under the race detector
	go test -race ./...

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT) ## Run the linters
	$< run ./...

.PHONY: tidy-check
tidy-check: ## Fail when go.mod or go.sum are not tidy
	go mod tidy -diff

.PHONY: bench
bench: ## Run the benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem ./...

$(TOOLS)/golangci-lint-$(GOLANGCI_LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv $(TOOLS)/golangci-lint $@
