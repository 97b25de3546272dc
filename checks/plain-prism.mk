## check-plain-prism: a plain beam.Run on Prism, exact sink pausing 300 ms per publish, 20,000 messages: none missing, nor of 5,000 one batch at a time (RUNS=10)
check-plain-prism:
	@cd checks/plain-prism && $(GO) build -o ../../bin/plain-prism .
	@for i in $$(seq $(or $(RUNS),10)); do bin/plain-prism || exit 1; done
	@for i in 1 2 3; do bin/plain-prism -per-tick 20 -outstanding 50 || exit 1; done
.PHONY: check-plain-prism
