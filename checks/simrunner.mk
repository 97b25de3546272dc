## check-simrunner: pubsubio in the simulated runner, both modes, every fault; the broken sources are caught (SEEDS=500 N=10000 SEED=1 ATLEAST=100)
check-simrunner:
	@$(GO) test -c -o bin/simrunner.test ./testing/simrunner
	@cd testing/simrunner && ../../bin/simrunner.test -test.timeout 2h -test.run '^Test(BrokenSourcesAreCaught|RightSource|Pubsub)$$' \
		-seed $(or $(SEED),1) -seeds $(or $(SEEDS),500) -messages $(or $(N),10000) -at-least $(or $(ATLEAST),100) > ../../bin/simrunner.log 2>&1; \
		rc=$$?; grep '^simrunner: ' ../../bin/simrunner.log; \
		if [ $$rc -eq 0 ]; then echo 'check-simrunner: ok'; else grep -E 'seed [0-9]+:$$|first: |wanted|find|panic|fatal' ../../bin/simrunner.log | head -40; echo 'check-simrunner: FAILED, schedules in bin/simrunner.log'; fi; exit $$rc
.PHONY: check-simrunner
