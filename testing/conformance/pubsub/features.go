// Package pubsub runs the conformance suite over pubsubio. The tables here are
// what its tests and docs/conformance.md go by; the harnesses are in the tests.
package pubsub

import "github.com/beam-brokers/beam-brokers/testing/conformance"

// noEmpty is true of the service, so the fake and the emulator do the same.
const noEmpty = "the service refuses a message with neither payload nor attributes (publisher documentation, PubsubMessage.data), " +
	"so none can be in a subscription; written ones go to Failed, which the tests of pubsubio see"

// Fake is pubsubio on testing/pubsubfake.
var Fake = conformance.Features{
	Connector: "pubsubio",
	Broker:    "testing/pubsubfake",
	Command:   "go test ./testing/conformance/pubsub",
	Off: map[conformance.Feature]string{
		conformance.EmptyMessage: noEmpty,
	},
}

// Emulator is pubsubio on Google's emulator.
var Emulator = conformance.Features{
	Connector: "pubsubio",
	Broker:    "Google's emulator",
	Command:   "go test -tags integration ./testing/conformance/pubsub",
	Off: map[conformance.Feature]string{
		conformance.EmptyMessage:   noEmpty,
		conformance.ConnectionDrop: "the emulator goes on handing messages to streams that were cut, as it does with the plain client; the last ones take minutes",
		conformance.BrokerRestart:  "the emulator keeps messages in memory: one that is stopped has lost them",
		conformance.BackPressure:   "the emulator ignores the flow control of streams, and does not tell what it has handed out",
		conformance.OpenDuplicates: "the emulator cannot be made to deliver a message twice while its lease lasts",
		conformance.BatchSizes:     "the emulator does not tell how messages were grouped in requests",
	},
}
