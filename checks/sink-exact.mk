## check-sink-exact: exact batching makes batches of 50 or 5 s, one outcome per message, no request over 50 (N=100000)
check-sink-exact:
	@$(GO) run ./checks/sink-exact -n $(or $(N),100000)
.PHONY: check-sink-exact
