## check-pubsub-drain: 100,000 messages, SIGTERM in the middle and again: missing 0, duplicates 0 (N=100000 LIMIT=1000 BROKER=auto)
check-pubsub-drain:
	@$(GO) run ./checks/pubsub-drain -n $(or $(N),100000) -limit $(or $(LIMIT),1000) -broker $(or $(BROKER),auto)

## check-pubsub-kill: killed with -9 five times: missing 0, duplicates <= kills x limit (N=100000 KILLS=5 LIMIT=1000 BROKER=auto, DELAY=50ms with BROKER=fake)
check-pubsub-kill:
	@$(GO) run ./checks/pubsub-kill -n $(or $(N),100000) -kills $(or $(KILLS),5) -limit $(or $(LIMIT),1000) -broker $(or $(BROKER),auto) $(if $(DELAY),-delay $(DELAY))

## check-pubsub-reject: sink refuses every 100th message: nothing acknowledged that is in no topic (N=20000 EVERY=100 BROKER=auto)
check-pubsub-reject:
	@$(GO) run ./checks/pubsub-reject -n $(or $(N),20000) -every $(or $(EVERY),100) -broker $(or $(BROKER),auto)

## check-idle: an idle bridge uses at most 3 % of a core, first message seen in 1.5 s (IDLE=60s CPU=3)
check-idle:
	@$(GO) run ./checks/idle -idle $(or $(IDLE),60s) -cpu $(or $(CPU),3)

## check-slow-sink: 50 msg/s against 1 GiB of backlog: bounded unsettled and memory, no lease expires (N=100000 RATE=50 SECONDS=120)
check-slow-sink:
	@$(GO) run ./checks/slow-sink -n $(or $(N),100000) -rate $(or $(RATE),50) -seconds $(or $(SECONDS),120)

.PHONY: check-pubsub-drain check-pubsub-kill check-pubsub-reject check-idle check-slow-sink

## check-windows: counts per key and minute of back-dated messages are exact, none late, the last after idling (SEED=1 MINUTES=10)
check-windows:
	@$(GO) run ./checks/windows -seed $(or $(SEED),1) -minutes $(or $(MINUTES),10)
.PHONY: check-windows

## bench-pubsub: pubsubio on Prism beside the plain client, 1 KiB: read and write at least half its rate (N=500000 RUNS=5)
bench-pubsub:
	@$(GO) run ./checks/bench-pubsub -n $(or $(N),500000) -runs $(or $(RUNS),5)
.PHONY: bench-pubsub
