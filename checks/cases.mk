## check-cases: the field cases of Pub/Sub and the core as named tests, none without one (CASES=F01,F02,...)
check-cases:
	@$(GO) run ./checks/cases $(if $(CASES),-cases $(CASES))
.PHONY: check-cases
