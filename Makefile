# Bare make lists the targets. make run needs nothing but Go and make.

BIN      := bin/chathome
# Where make cluster and make demo keep what they write.
CLUSTER  := .cluster
# Flags for the program (make run) or the tests (make test).
ARGS     ?=
TESTFLAGS ?=
PKG      ?= ./...
BENCH    ?= .
COUNT    ?= 1
FUZZTIME ?= 10s
SEED     ?=
HOURS    ?= 24
MINUTES  ?= 10
# Of make kafka and make test-kafka.
VERSION  ?= 4.4
NODES    ?= 1
RUN      ?= .

TOOL := go tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help build run test test-deploy audit test-clients graphiql cluster demo sim model seeded hostile bench bench-fanout bench-http bench-kafka fuzz generate fmt vet lint check clean kafka test-kafka

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/chathome
	CGO_ENABLED=0 go build -o $(BIN) ./server

run: build ## Start one server with the embedded broker (ARGS=… for flags)
	exec $(BIN) serve $(ARGS)

test: ## Run all tests with the race detector (needs a C compiler; PKG=… TESTFLAGS=…)
	@cc="$${CC:-$$(go env CC)}"; command -v $${cc%% *} >/dev/null 2>&1 || \
		{ echo "make test: the race detector needs a C compiler (gcc or clang), and there is none" >&2; exit 1; }
	CGO_ENABLED=1 go test -race -timeout 30m $(TESTFLAGS) $(PKG)

test-deploy: ## Parse the files in deploy/ as Prometheus, Grafana and Kubernetes do
	cd deploy/check && go test ./...

audit: build ## Run the specifications' own tests: HTTP, event streams, sockets (needs Node)
	test/audit/run.sh $(BIN)

test-clients: build ## Run real clients end to end (needs Node and Chromium; CLIENTS=…)
	test/clients/run.sh $(BIN) $(CLIENTS)

graphiql: ## Build the page that is embedded again from its lock file; leaves no diff (needs Node)
	server/graphiql/build.sh

kafka: ## Start a real Apache Kafka to play with (VERSION=3.9, 4.0 or 4.4, NODES=1 or 3; Ctrl-C ends it)
	@go build -o bin/kafka ./test/kafka/play
	@exec bin/kafka -version $(VERSION) -nodes $(NODES)

test-kafka: ## Run the suites on real Apache Kafka (needs Java 17 and Maven; RUN=… TESTFLAGS=… for some)
	@go build -o bin/kafka ./test/kafka/play
	@bin/kafka -need
	CGO_ENABLED=1 go test -race -tags kafka -count 1 -timeout 30m -run '$(RUN)' $(TESTFLAGS) ./test/kafka/...

cluster: build ## Start a broker and three servers on ports 8081 to 8083 (Ctrl-C ends all; KAFKA=1 for a real Kafka)
ifdef KAFKA
	@go build -o bin/kafka ./test/kafka/play
	@exec bin/kafka -version $(VERSION) -nodes $(NODES) -- scripts/cluster $(BIN) $(CLUSTER)/kafka
else
	@exec scripts/cluster $(BIN) $(CLUSTER)
endif

demo: build ## Drive a cluster with real clients while servers come, go and are killed (ARGS=-help; KAFKA=1 for a real Kafka)
	@go build -o bin/demo ./test/demo
ifdef KAFKA
	@go build -o bin/kafka ./test/kafka/play
	@exec bin/kafka -version $(VERSION) -nodes $(NODES) -- bin/demo $(ARGS)
else
	@exec bin/demo $(ARGS)
endif

torture: NODES = 3
torture: build ## Break a cluster of processes in all ways there are (MINUTES=… SEED=…; ARGS=-help; KAFKA=1 on three real brokers)
	@go build -o bin/torture ./test/torture
	@exec bin/torture -minutes $(MINUTES) $(if $(SEED),-seed $(SEED)) $(if $(KAFKA),-kafka $(VERSION) -nodes $(NODES)) $(ARGS)

sim: ## Simulate hours of faults in minutes (SEED=… HOURS=…)
	go test -tags failpoints -count 1 -timeout 0 ./test/sim -run '^TestSim$$' -v -args -hours $(HOURS) $(if $(SEED),-seed $(SEED)) $(ARGS)

seeded: ## Plant bugs one by one and see the simulation catch each (ARGS=…)
	go run ./test/seeded $(ARGS)

hostile: ## Attack a server with hostile clients while others go on (TESTFLAGS=-race; ARGS=-leaks for Go's leak profile)
	go test -count 1 -timeout 30m -v $(TESTFLAGS) ./test/hostile -args -full $(ARGS)

model: ## Explore all states of a model of takeover, writes and answers (needs Spin and a C compiler; docs/MODEL.md)
	@test/model/run.sh

bench: ## Run benchmarks (PKG=… BENCH=… COUNT=…)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

bench-fanout: build ## Measure the fan-out beside Centrifugo (ARGS=-centrifugo=… names its program; builds it otherwise)
	go run ./test/fanoutload -server $(BIN) -centrifugo build $(ARGS)

bench-http: ## Measure GraphQL over HTTP beside gqlgen's own transport: requests/s, allocations, p99 (COUNT=… TESTFLAGS=…)
	go test -run '^$$' -bench 'POST|Loopback' -benchmem -count $(COUNT) $(TESTFLAGS) ./server/graphqlhttp

bench-kafka: build ## Measure on a real Kafka beside raw kafka-go: sends, loads, moves (needs Java 17, Maven; ARGS='-only load')
	go run ./test/kafkaload -program $(BIN) $(ARGS)

fuzz: ## Run each fuzz target for FUZZTIME (PKG=…)
	@scripts/fuzz $(FUZZTIME) $(PKG)

generate: ## Generate code again; leaves no diff in a clean clone
	go generate ./...

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

vet: ## Run go vet
	go vet ./...

lint: ## Run the linters of .golangci.yml
	$(TOOL) golangci-lint run

check: ## What CI runs
	.ci/run

clean: ## Remove what was built and all data of make run and make cluster
	rm -rf bin .chathome $(CLUSTER)
