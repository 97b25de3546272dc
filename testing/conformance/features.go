package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A Feature is one thing that a connector must do. Its name is its subtest's.
type Feature string

// The features, in the order in which they are tested.
const (
	RoundTrip          Feature = "round trip"
	EmptyMessage       Feature = "empty message"
	Redelivery         Feature = "redelivery without acknowledgement"
	AckAfterCommit     Feature = "acknowledged after commit"
	FailingBundle      Feature = "failing bundle"
	Restart            Feature = "restart"
	Drain              Feature = "drain"
	IdleWatermark      Feature = "idle watermark"
	Poison             Feature = "poison message"
	ConnectionDrop     Feature = "connection drop"
	BrokerRestart      Feature = "broker restart"
	SlowBroker         Feature = "slow broker"
	BackPressure       Feature = "back pressure"
	CleanClose         Feature = "clean close"
	OrderOnRead        Feature = "order of a key, read"
	OpenDuplicates     Feature = "duplicates while open"
	OneOutcome         Feature = "one outcome each"
	UnknownDestination Feature = "unknown destination"
	BatchSizes         Feature = "batch sizes"
	OrderOnWrite       Feature = "order of a key, written"
)

// A check is how a feature is tested.
type check struct {
	feature Feature
	proves  string
	run     func(*rig)
}

var checks = []check{
	{RoundTrip, "payloads and headers come through source and sink unchanged: no payload, empty and odd values, binary, repeated", checkRoundTrip},
	{EmptyMessage, "so does a message with neither payload nor headers", checkEmptyMessage},
	{Redelivery, "what a cancelled job had in hand comes again, all of it", checkRedelivery},
	{AckAfterCommit, "nothing is acknowledged while the bundle is open, also after the source's call has ended", checkAckAfterCommit},
	{FailingBundle, "messages of a bundle that fails come again, those of the committed one before it do not", checkFailingBundle},
	{Restart, "a job after one cancelled under load finds everything that was not committed", checkRestart},
	{Drain, "a drained job has acknowledged what it emitted and given back the rest; the next one finds exactly that", checkDrain},
	{IdleWatermark, "windows fire while nothing comes any more", checkIdleWatermark},
	{Poison, "what cannot be decoded comes out of Failed with its raw payload, its neighbours unharmed", checkPoison},
	{ConnectionDrop, "connections cut under load: nothing missing, all acknowledged", checkConnectionDrop},
	{BrokerRestart, "broker stopped and started under load: nothing missing, all acknowledged", checkBrokerRestart},
	{SlowBroker, "every answer late: nothing missing or double, in source and sink", checkSlowBroker},
	{BackPressure, "what is received and unsettled never exceeds the limit while the pipeline stands still", checkBackPressure},
	{CleanClose, "jobs leave no goroutines behind and share their connections", checkCleanClose},
	{OrderOnRead, "messages of one key are read in order", checkOrderOnRead},
	{OpenDuplicates, "what the broker delivers again while its bundle is open is not emitted twice, and both deliveries are settled", checkOpenDuplicates},
	{OneOutcome, "each message written has one outcome, and is stored once", checkOneOutcome},
	{UnknownDestination, "messages to a destination that does not exist or has an illegal name fail alone, with its name in the reason", checkUnknownDestination},
	{BatchSizes, "write requests hold as many messages as they may, and never more", checkBatchSizes},
	{OrderOnWrite, "messages of one key are stored in order", checkOrderOnWrite},
}

// Features say what a connector does on one broker.
type Features struct {
	// Connector and Broker are what the instance is called.
	Connector, Broker string
	// Command runs it.
	Command string
	// Off are the features switched off, each with the reason why. All others
	// are on.
	Off map[Feature]string
}

// Validate returns an error that names every feature of Off that does not exist
// or has no reason.
func (f Features) Validate() error {
	var wrong []string
	for name, reason := range f.Off {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.feature == name }) {
			wrong = append(wrong, fmt.Sprintf("%q is no feature", name))
		}
		if len(strings.Fields(reason)) < 3 {
			wrong = append(wrong, fmt.Sprintf("%q is switched off without a reason", name))
		}
	}
	if f.Connector == "" || f.Broker == "" || f.Command == "" {
		wrong = append(wrong, "connector, broker and command must be named")
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("features of %s on %s: %s", f.Connector, f.Broker, strings.Join(wrong, "; "))
}

// Run runs the suite: a subtest for each feature that is on.
func Run(t *testing.T, h Harness, f Features) {
	t.Helper()
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if f.Off[c.feature] != "" {
			continue
		}
		t.Run(string(c.feature), func(t *testing.T) { c.run(&rig{T: t, h: h}) })
	}
}

// Document is docs/conformance.md: which connector is tested on which broker
// for what.
func Document(tables ...Features) string {
	var b strings.Builder
	b.WriteString("# Conformance\n\n")
	b.WriteString("Generated by `make docs` from the feature tables that the tests run by; edits here are lost.\n\n")
	b.WriteString("Every connector passes one suite, `testing/conformance`, on a broker in the test's process\n")
	b.WriteString("and on real ones. \"yes\" is a subtest that runs; there are no skips, and each \"no\" has its\n")
	b.WriteString("reason below. Commits that come late, twice or never, splits, and sources that move to\n")
	b.WriteString("another worker are not Prism's to give: `testing/simrunner` has them.\n\n")
	for i, f := range tables {
		fmt.Fprintf(&b, "%d. %s on %s: `%s`\n", i+1, f.Connector, f.Broker, f.Command)
	}
	b.WriteString("\n| feature | what is proven |")
	for i := range tables {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(tables)) + "\n")
	for _, c := range checks {
		fmt.Fprintf(&b, "| %s | %s |", c.feature, c.proves)
		for _, f := range tables {
			b.WriteString(map[bool]string{true: " yes |", false: " no |"}[f.Off[c.feature] == ""])
		}
		b.WriteString("\n")
	}
	for _, f := range tables {
		if len(f.Off) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## Not tested: %s on %s\n\n", f.Connector, f.Broker)
		for _, c := range checks {
			if reason := f.Off[c.feature]; reason != "" {
				fmt.Fprintf(&b, "- %s: %s\n", c.feature, reason)
			}
		}
	}
	return b.String()
}
