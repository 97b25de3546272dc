// Command cases runs the named tests of the field cases (TestF01..., and the
// simulated runner's subtests "F01: ...") and fails where a case has none.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/checks"
)

// The cases of Pub/Sub and the core. F29 takes minutes and is check-slow-sink.
const defaultCases = "F01,F02,F03,F04,F05,F14,F16,F18,F19,F20,F21,F22,F23,F24,F27,F28,F32,F33"

// packages hold the tests.
var packages = []string{"./pubsubio", "./internal/...", "./testing/..."}

var caseName = regexp.MustCompile(`(?:^Test|/)(F[0-9]{2})`)

// An event is a line of go test -json.
type event struct{ Action, Test, Package string }

func main() {
	cases := flag.String("cases", defaultCases, "comma-separated cases that need a test")
	flag.Parse()
	checks.Main("check-cases", 20*time.Minute, func(ctx context.Context) (string, error) {
		passed, failed, err := run(ctx)
		if len(failed) == 0 && err != nil {
			return "", err
		}
		var claims checks.Claims
		claims.That(len(failed) == 0, "red: %v", failed)
		tests := 0
		for c := range strings.SplitSeq(*cases, ",") {
			claims.That(passed[c] > 0, "%s has no test that passes", c)
			tests += passed[c]
		}
		return fmt.Sprintf("%d tests of %s pass; F29 is check-slow-sink", tests, *cases), claims.Err()
	})
}

// run runs the tests and counts those that passed by case.
func run(ctx context.Context) (passed map[string]int, failed []string, err error) {
	args := append([]string{"test", "-race", "-json", "-p", "2", "-run", "^TestF[0-9][0-9]|^TestFieldCases"}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("running the tests: %w", err)
	}
	passed = map[string]int{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		name := caseName.FindStringSubmatch(e.Test)
		switch {
		case name == nil:
		case e.Action == "pass":
			passed[name[1]]++
		case e.Action == "fail":
			failed = append(failed, e.Test)
		}
	}
	return passed, failed, cmd.Wait()
}
