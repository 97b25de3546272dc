package pubsubio

import "time"

// Topic sends every message to one topic, an id or a full name (projects/P/topics/T).
// Without it each message goes to its own Topic.
func Topic(name string) WriteOption {
	return writeOption{"topic", func(c *writeConfig) { c.Topic = name }}
}

// A Batching says what becomes of messages that do not fill a publish request
// by the end of their bundle. It is itself an option.
type Batching string

// The batching modes.
const (
	// BatchBundle publishes them when the bundle ends (default): nothing waits
	// outside a bundle, and the order of a key is kept.
	BatchBundle Batching = "bundle"
	// BatchExact gathers them over bundles until BatchCount or BatchDelay. It
	// promises no order, and needs a runner with durable state to be safe
	// against a crash; Prism is not one.
	BatchExact Batching = "exact"
	// BatchStreaming publishes each message at once, in a request of its own.
	BatchStreaming Batching = "streaming"
)

func (b Batching) applyWrite(c *writeConfig) { c.give("batching"); c.Batching = b }

// BatchDelay sets how long the first message of an incomplete batch of
// BatchExact waits for others. Default 5 s.
func BatchDelay(d time.Duration) WriteOption {
	return writeOption{"batchDelay", func(c *writeConfig) { c.BatchDelay = d }}
}

// PublishTimeout sets how long a batch may take, retries included, from being
// handed over to its answer. Then its messages are Failed with Unknown set.
// Default 1 minute.
func PublishTimeout(d time.Duration) WriteOption {
	return writeOption{"publishTimeout", func(c *writeConfig) { c.PublishTimeout = d }}
}

// MaxAttempts sets how many publish calls may carry a message before it is
// Failed. Default 10; 1 is no retry.
func MaxAttempts(n int) WriteOption {
	return writeOption{"maxAttempts", func(c *writeConfig) { c.MaxAttempts = n }}
}

// OrderingKeys tells whether the ordering keys of messages are sent. Default
// true: messages of a key are published in order. False drops the keys.
func OrderingKeys(on bool) WriteOption {
	return writeOption{"orderingKeys", func(c *writeConfig) { c.OrderingKeys = on }}
}

// An OrderingFailure says what becomes of an ordering key after one of its
// messages failed. It is itself an option.
type OrderingFailure string

// What follows the failure of a key.
const (
	// OrderingResume goes on with the key's next message (default).
	OrderingResume OrderingFailure = "resume"
	// OrderingHold sends the key's later messages to Failed, unsent, so that none
	// overtakes, for as long as the process lives.
	OrderingHold OrderingFailure = "hold"
)

func (f OrderingFailure) applyWrite(c *writeConfig) {
	c.give("orderingFailure")
	c.OrderingFailure = f
}

// A Compression of publish requests. It is itself an option.
type Compression string

// The compressions.
const (
	CompressionNone Compression = "none" // default
	CompressionGzip Compression = "gzip"
)

func (z Compression) applyWrite(c *writeConfig) { c.give("compression"); c.Compression = z }

// PublishLatencyMetrics measures the time of each batch from being handed over
// to its answer, in PublishResult.Latency and the metric publish_latency_ms.
// Default false.
func PublishLatencyMetrics(on bool) WriteOption {
	return writeOption{"publishLatencyMetrics", func(c *writeConfig) { c.PublishLatencyMetrics = on }}
}
