## check-commit-late: commits 35 s late with 10 s leases: no duplicate, none expired, >= 3 renewals each; two jobs never mixed (N=20000)
check-commit-late:
	@out=$$($(GO) test -v -count=1 -run '^TestLateCommitsLoseNoLease$$' ./pubsubio -commit-late=$(or $(N),20000) 2>&1 \
		&& $(GO) test -v -count=1 -run '^TestTwoJobsOfOneProcessAreNotMixed$$' ./internal/commit 2>&1) \
		&& echo "check-commit-late: ok:$$(printf '%s\n' "$$out" | sed -n 's/.*commitlate_test.go:[0-9]*://p'); two jobs in one process not mixed" \
		|| { printf '%s\n' "$$out" | tail -20; echo 'check-commit-late: FAILED'; exit 1; }
.PHONY: check-commit-late
