# All commands of the repository. Needs Go, gcc (for the race detector) and
# make, nothing else; `make integration` uses real brokers where they are found.

# An empty GOFLAGS gets -buildvcs=false: a clone that belongs to another user
# (CI as root) cannot be stamped. Whoever sets GOFLAGS keeps it.
GOFLAGS ?=
ifeq ($(strip $(GOFLAGS)),)
GOFLAGS := -buildvcs=false
endif
export GOFLAGS

GO       ?= go
P        ?= 2
PKG      ?= ./...
TIMEOUT  ?= 20m

# Tools, pinned here and nowhere else.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.DEFAULT_GOAL := help
.PHONY: help all ci demo test integration lint fmt bench fuzz docs docs-check vuln upstream checks

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

all: fmt lint test docs ## format, lint, test and regenerate the docs

ci: ## what CI runs: lint, test, integration, docs-check, with the time of each
	@scripts/parts.sh lint test integration docs-check

demo: ## embedded broker, N=50000 messages end to end through the bridge, verified
	@$(GO) run ./pipelines/demo $(if $(N),-n $(N)) $(ARGS)

test: ## unit and pipeline tests with the race detector, in random order
	@GO='$(GO)' scripts/test.sh test -race -shuffle=on -p $(P) -timeout $(TIMEOUT) $(PKG)
	@GO='$(GO)' scripts/test.sh 'test, cancelling jobs without the detector' -p $(P) -timeout $(TIMEOUT) \
		-run 'SecondSignal|TestConformanceOnFake/(redelivery|restart)' ./internal/bridge ./testing/conformance/pubsub

integration: ## the packages with real brokers; says what cannot be had here
	@GO='$(GO)' P='$(P)' TIMEOUT='$(TIMEOUT)' scripts/integration.sh

lint: ## gofumpt, go vet, golangci-lint and the rules of scripts/lint.sh
	@GO='$(GO)' GOFUMPT='$(GOFUMPT)' GOLANGCI='$(GOLANGCI)' P='$(P)' scripts/lint.sh $(PKG)

fmt: ## gofumpt -w
	$(GO) run $(GOFUMPT) -w .

bench: ## Go benchmarks: BENCH=regexp COUNT=10
	@GO='$(GO)' scripts/bench.sh '$(or $(BENCH),.)' '$(or $(COUNT),10)'

fuzz: ## each fuzz target for FUZZTIME=30s
	@GO='$(GO)' scripts/fuzz.sh '$(or $(FUZZTIME),30s)'

docs: ## regenerate docs/*.md that come from the code
	$(GO) generate $(PKG)

docs-check: ## fail when a generated document is stale
	@MAKE='$(MAKE)' scripts/docs-check.sh

vuln: ## govulncheck
	$(GO) run $(GOVULNCHECK) $(PKG)

upstream: ## run the minimal programs of docs/upstream.md: are the faults still there?
	@GO='$(GO)' scripts/upstream.sh

# Checks. Each is a target named for what it checks, prints one result line and
# ends non-zero on failure; its seed and sizes are variables. Rooms add theirs
# in checks/NAME.mk, the program in checks/NAME (or beside its connector):
#
#	## check-NAME: what it proves, in one line (VARIABLES=defaults)
#	check-NAME:
#		@$(GO) run ./checks/NAME -seed $(or $(SEED),1)
-include $(sort $(wildcard checks/*.mk))

checks: ## list the slow checks, make check-..., one line each
	@awk '/^## check-[a-z0-9-]+: / {i = index($$0, ": "); printf "  make %-24s %s\n", substr($$0, 4, i - 4), substr($$0, i + 2)}' \
		Makefile $(sort $(wildcard checks/*.mk)) /dev/null
