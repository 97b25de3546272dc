package simrunner

import (
	"math/rand/v2"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// A Mode is a model of a runner.
type Mode string

// The modes.
const (
	// Flink takes checkpoints and goes back to the last one on a failure.
	Flink Mode = "flink"
	// Dataflow commits each bundle by itself.
	Dataflow Mode = "dataflow"
)

// A Config says what is run. Source, ID and Broker are required.
type Config struct {
	// Mode is the runner's model. The source must have been told about it where
	// its commit policy depends on the runner.
	Mode Mode
	// Seed determines the schedule.
	Seed uint64
	// Source applies the source under test. It is called once for each job.
	Source func(s beam.Scope) beam.PCollection
	// ID names the message that an element of an output was made of, by the
	// broker's id. A KV is given by its key. An empty id is not counted.
	ID func(output int, element any) string
	// Broker is the test's side of the broker.
	Broker Broker
	// Messages is how many are published, over about Duration. Defaults: 1000
	// and 90 s.
	Messages int
	Duration time.Duration
	// Idle is how long nothing happens before the run ends; afterwards
	// Result.WatermarkLag is known.
	Idle time.Duration
	// Workers is how many workers there are at a time. Default 3.
	Workers int
	// CommitTimeout is what the source was given: how long a message may wait
	// for the commit of its bundle. Default 10 minutes.
	CommitTimeout time.Duration
	// SettleSlack is how long a delivered message may stay unsettled beside
	// CommitTimeout: call, settling, lease. Default 2 minutes.
	SettleSlack time.Duration
	// Checkpoint is about the time between checkpoints in Flink mode. Default 5 s.
	Checkpoint time.Duration
	// Faults are the rates of faults, see AllFaults. Nil means none.
	Faults Rates
	// BrokerFaults is about how many of the Broker's faults strike in a run.
	BrokerFaults float64
}

// A Broker is what the simulation needs to know about, and do to, a broker.
type Broker interface {
	// Publish stores n messages now and returns their ids.
	Publish(n int) (ids []string, err error)
	// Watch makes the broker call f for each event, in order. f is quick.
	Watch(f func(Event))
	// Dial adapts an encoded DoFn to the worker it is sent to, so that the
	// worker has connections of its own which Cut can end.
	Dial(worker string, dofn []byte) []byte
	// Cut ends a worker's connections for good: the worker is dead.
	Cut(worker string)
	// Unsettled is how many messages are not acknowledged, delivered or not.
	Unsettled() int
	// Faults are what can be made to go wrong in the broker.
	Faults() []BrokerFault
}

// A BrokerFault is something that goes wrong in the broker or on the way to it.
type BrokerFault struct {
	// Name is what the fault is counted under.
	Name string
	// Strike begins the fault and returns what ends it, which may be nil. It is
	// ended after a few seconds.
	Strike func(rng *rand.Rand) (end func())
}

// An EventKind says what an Event tells.
type EventKind int

// The kinds of events.
const (
	// Delivered: the message was handed to a reader.
	Delivered EventKind = iota
	// Acked: the broker has forgotten the message.
	Acked
	// Returned: the delivery was given back by its reader.
	Returned
	// Lapsed: the broker ended the delivery by itself.
	Lapsed
	// Refused: a settlement of somebody else's delivery was not taken.
	Refused
)

func (k EventKind) String() string {
	return [...]string{"delivered", "acked", "returned", "lapsed", "refused"}[k]
}

// An Event is something that happened to a message in the broker.
type Event struct {
	Kind EventKind
	// ID is the message's id, Delivery that of this delivery.
	ID, Delivery string
	// Worker is who did it, where the broker can tell.
	Worker string
}

func (c Config) withDefaults() Config {
	setDefault(&c.Messages, 1000)
	setDefault(&c.Duration, 90*time.Second)
	setDefault(&c.Workers, 3)
	setDefault(&c.CommitTimeout, 10*time.Minute)
	setDefault(&c.SettleSlack, 2*time.Minute)
	setDefault(&c.Checkpoint, 5*time.Second)
	return c
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
