package pubsubio

import (
	"flag"
	"slices"
	"time"
)

// Auto stands for "find it out" where an option takes a number: NumWriters(Auto)
// is the number of CPUs of the worker.
const Auto = -1

// Defaults of both directions; a table test holds the documented texts against
// them.
const (
	defaultBatchSize        = 64 << 20
	defaultOutstanding      = 10_000
	defaultCommitTimeout    = 10 * time.Minute
	defaultIdleThreshold    = 5 * time.Second
	defaultStallTimeout     = 20 * time.Second
	defaultMaxRetryTime     = 90 * time.Second
	defaultExactBatchCount  = 50
	defaultBundleBatchCount = 1000
	defaultBatchDelay       = 5 * time.Second
	defaultPublishTimeout   = time.Minute
	defaultMaxAttempts      = 10

	seedAckDeadline  = 180 * time.Second
	leastAckDeadline = 60 * time.Second
	minAckDeadline   = 10 * time.Second
	maxAckDeadline   = 600 * time.Second

	// maxRequestBytes and maxRequestMessages are the service's limits of one
	// publish request.
	maxRequestBytes    = 10_000_000
	maxRequestMessages = 1000
)

// A readConfig is what a Read was asked for, complete: it comes out of
// newReadConfig with defaults filled in and travels to the workers as JSON.
// A zero duration or number means "auto" only where its comment says so.
type readConfig struct {
	// Subscription is the full name, projects/P/subscriptions/S.
	Subscription string
	// Topic is the full name of the topic whose schema is used; empty means the
	// subscription's own topic.
	Topic string

	Seek         Seek
	SeekTime     time.Time // of SeekToTime
	SeekSnapshot string    // of SeekToSnapshot: full name, projects/P/snapshots/S

	Trigger        Trigger
	LimitTime      time.Time     // exclusive bound of the publish time; zero: none
	ReceiveTime    time.Duration // 0: auto
	ProcessingTime time.Duration // 0: measured
	GatherMode     GatherMode
	BatchSize      int64 // payload bytes of a bundle
	BatchCount     int   // messages of a bundle; 0: no limit
	NumWriters     int   // Auto: CPUs of the worker

	AckMode       AckMode
	AckDeadline   time.Duration // lease step; 0: auto, see ackDeadline
	MaxRetryTime  time.Duration // 0: min(90 s, ackDeadline), see retryTime
	CommitTimeout time.Duration

	SchemaMode   SchemaMode
	MetadataMode MetadataMode
	Schema       string // user schema, Avro record JSON or DDL; empty: none

	MaxOutstandingMessages int
	MaxOutstandingBytes    int64
	MaxWorkers             int
	ClientsPerWorker       int
	Streams                int // StreamingPull streams of a reader
	StallTimeout           time.Duration

	TimestampAttribute string
	TimestampSlack     time.Duration
	IDAttribute        string
	WatermarkPolicy    WatermarkPolicy
	MaxLag             time.Duration // of WatermarkPublishTimeWithMaxLag
	WatermarkFunc      string        // name given to RegisterWatermarkFunc
	IdleThreshold      time.Duration

	Runner string // lower-case name of the runner, empty where not known

	// Given holds the names of the options that were given, sorted: an option
	// may be an error in a mode in which its default is not.
	Given []string
}

// defaultReadConfig returns the settings of a Read without options.
func defaultReadConfig() readConfig {
	return readConfig{
		Seek:             SeekNone,
		Trigger:          TriggerProcessingTime,
		GatherMode:       GatherBatch,
		BatchSize:        defaultBatchSize,
		NumWriters:       1,
		AckMode:          AckAfterCommit,
		CommitTimeout:    defaultCommitTimeout,
		SchemaMode:       SchemaBasic,
		MetadataMode:     MetadataNone,
		MaxWorkers:       1,
		ClientsPerWorker: 1,
		Streams:          1,
		StallTimeout:     defaultStallTimeout,
		WatermarkPolicy:  WatermarkPublishTime,
		IdleThreshold:    defaultIdleThreshold,
	}
}

// newReadConfig applies the options, checks them all and fills in what depends
// on others. The error joins every mistake.
func newReadConfig(conn Connection, subscription string, opts ...ReadOption) (readConfig, error) {
	c := defaultReadConfig()
	c.Runner = runnerFlag()
	for _, o := range opts {
		o.applyRead(&c)
	}
	c.Subscription = subscription
	if err := c.validate(conn); err != nil {
		return readConfig{}, err
	}
	c.resolve(conn)
	return c, nil
}

// resolve fills in what has its default from another setting, and makes names
// full ones.
func (c *readConfig) resolve(conn Connection) {
	c.Subscription = fullName(conn.ProjectID, "subscriptions", c.Subscription)
	c.Topic = fullName(conn.ProjectID, "topics", c.Topic)
	c.SeekSnapshot = fullName(conn.ProjectID, "snapshots", c.SeekSnapshot)
	if !c.given("maxOutstandingMessages") {
		c.MaxOutstandingMessages = defaultOutstanding
		if c.BatchCount > 0 {
			c.MaxOutstandingMessages = c.BatchCount
		}
	}
	if !c.given("maxOutstandingBytes") {
		c.MaxOutstandingBytes = c.BatchSize
	}
	// What may never be outstanding can never be gathered.
	c.BatchSize = min(c.BatchSize, c.MaxOutstandingBytes)
}

// ackDeadline returns the lease step: the one that was given, else three times
// the interval between commits, clamped to 60 - 600 s, and 180 s while the
// interval is not known (0).
func (c *readConfig) ackDeadline(commitInterval time.Duration) time.Duration {
	switch {
	case c.AckDeadline > 0:
		return c.AckDeadline
	case commitInterval <= 0:
		return seedAckDeadline
	case commitInterval > maxAckDeadline/3:
		return maxAckDeadline
	}
	return max(3*commitInterval, leastAckDeadline)
}

// retryTime returns how long an ack or nack is tried, given the lease step.
func (c *readConfig) retryTime(ackDeadline time.Duration) time.Duration {
	if c.MaxRetryTime > 0 {
		return c.MaxRetryTime
	}
	return min(defaultMaxRetryTime, ackDeadline)
}

func (c *readConfig) give(name string) { c.Given = insert(c.Given, name) }

func (c *readConfig) given(name string) bool { return slices.Contains(c.Given, name) }

// A writeConfig is what a Write was asked for, complete; see readConfig.
type writeConfig struct {
	// Topic is the full name of the one topic, or empty: each message's own.
	Topic string
	// ProjectID completes the topic ids of messages.
	ProjectID string

	MaxWorkers       int // 0: unbounded
	ClientsPerWorker int

	Batching   Batching
	BatchCount int           // messages of a publish request; 1 when streaming
	BatchSize  int64         // bytes of a publish request
	BatchDelay time.Duration // oldest message of an incomplete exact batch

	PublishTimeout         time.Duration
	MaxAttempts            int // publish calls that may carry a message
	MaxOutstandingMessages int
	MaxOutstandingBytes    int64

	OrderingKeys    bool
	OrderingFailure OrderingFailure

	IDAttribute        string // attribute written with the message's id
	TimestampAttribute string // attribute written with the event time

	Compression           Compression
	PublishLatencyMetrics bool

	Runner string // lower-case name of the runner, empty where not known

	// Given holds the names of the options that were given, sorted.
	Given []string
}

// defaultWriteConfig returns the settings of a Write without options.
func defaultWriteConfig() writeConfig {
	return writeConfig{
		ClientsPerWorker:       1,
		Batching:               BatchBundle,
		BatchSize:              maxRequestBytes,
		BatchDelay:             defaultBatchDelay,
		PublishTimeout:         defaultPublishTimeout,
		MaxAttempts:            defaultMaxAttempts,
		MaxOutstandingMessages: defaultOutstanding,
		MaxOutstandingBytes:    defaultBatchSize,
		OrderingKeys:           true,
		OrderingFailure:        OrderingResume,
		Compression:            CompressionNone,
	}
}

// newWriteConfig is newReadConfig for a Write. The topic is the one of the
// options; empty sends each message to its own.
func newWriteConfig(conn Connection, opts ...WriteOption) (writeConfig, error) {
	c := defaultWriteConfig()
	c.Runner = runnerFlag()
	for _, o := range opts {
		o.applyWrite(&c)
	}
	if err := c.validate(conn); err != nil {
		return writeConfig{}, err
	}
	c.resolve(conn)
	return c, nil
}

func (c *writeConfig) resolve(conn Connection) {
	c.ProjectID = conn.ProjectID
	c.Topic = fullName(conn.ProjectID, "topics", c.Topic)
	if !c.given("batchCount") {
		switch c.Batching {
		case BatchExact:
			c.BatchCount = defaultExactBatchCount
		case BatchStreaming:
			c.BatchCount = 1
		case BatchBundle:
			c.BatchCount = defaultBundleBatchCount
		}
	}
}

func (c *writeConfig) give(name string) { c.Given = insert(c.Given, name) }

func (c *writeConfig) given(name string) bool { return slices.Contains(c.Given, name) }

// insert adds a name to a sorted list, once.
func insert(names []string, name string) []string {
	i, found := slices.BinarySearch(names, name)
	if found {
		return names
	}
	return slices.Insert(slices.Clone(names), i, name)
}

// runnerFlag returns the value of the runner flag where a program has one
// (beamx defines it), else nothing.
func runnerFlag() string {
	if f := flag.Lookup("runner"); f != nil {
		return runnerName(f.Value.String())
	}
	return ""
}
