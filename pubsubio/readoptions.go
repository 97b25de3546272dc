package pubsubio

import "time"

// A Seek says where the subscription is set to before the job's first message.
// It is done once for each job that is started, never again on a retry or a
// restore. It is itself an option: Read(s, conn, sub, SeekBeginning).
type Seek string

// The places to seek to.
const (
	// SeekNone leaves the subscription as it is (default).
	SeekNone Seek = "none"
	// SeekBeginning makes everything retained be delivered again.
	SeekBeginning Seek = "beginning"
	// SeekToTime goes to the time of SeekTime.
	SeekToTime Seek = "timestamp"
	// SeekToSnapshot goes to the snapshot of SeekSnapshot.
	SeekToSnapshot Seek = "snapshot"
)

func (s Seek) applyRead(c *readConfig) { c.give("seek"); c.Seek = s }

// SeekTime is the instant that SeekToTime goes to.
func SeekTime(t time.Time) ReadOption {
	return readOption{"seekTime", func(c *readConfig) { c.SeekTime = t.UTC() }}
}

// SeekSnapshot names the snapshot that SeekToSnapshot goes to: an id or a full
// name, projects/P/snapshots/S.
func SeekSnapshot(name string) ReadOption {
	return readOption{"seekSnapshot", func(c *readConfig) { c.SeekSnapshot = name }}
}

// A Trigger says how long a Read goes on. It is itself an option.
type Trigger string

// The triggers, by the names the Spark connector uses.
const (
	// TriggerProcessingTime reads for ever (default).
	TriggerProcessingTime Trigger = "processingTime"
	// TriggerAvailableNow reads until the subscription is idle or LimitTime is
	// reached, then ends.
	TriggerAvailableNow Trigger = "availableNow"
	// TriggerOnce gathers one batch during ReceiveTime, then ends.
	TriggerOnce Trigger = "once"
)

func (t Trigger) applyRead(c *readConfig) { c.give("trigger"); c.Trigger = t }

// LimitTime ends a Read with TriggerAvailableNow at the first receive that holds
// a message published at or after it. Those messages stay in the subscription.
func LimitTime(t time.Time) ReadOption {
	return readOption{"limitTime", func(c *readConfig) { c.LimitTime = t.UTC() }}
}

// ReceiveTime sets how long a bundle gathers messages. Omitted, it is found:
// the interval less what recent commits took and a margin. It must be shorter
// than ProcessingTime.
func ReceiveTime(d time.Duration) ReadOption {
	return readDuration("receiveTime", func(c *readConfig) *time.Duration { return &c.ReceiveTime }, d)
}

// ProcessingTime sets the interval between bundles for which an omitted
// ReceiveTime is found. Omitted, the interval is measured.
func ProcessingTime(d time.Duration) ReadOption {
	return readDuration("processingTime", func(c *readConfig) *time.Duration { return &c.ProcessingTime }, d)
}

// A GatherMode says when a bundle is full. It is itself an option.
type GatherMode string

// The gather modes.
const (
	// GatherBatch collects until ReceiveTime, BatchSize or BatchCount (default).
	GatherBatch GatherMode = "batch"
	// GatherImmediate emits what is there as soon as something is there.
	GatherImmediate GatherMode = "immediate"
)

func (m GatherMode) applyRead(c *readConfig) { c.give("gatherMode"); c.GatherMode = m }

// NumWriters splits each bundle into n parts before it leaves the transform, so
// that n workers can write it; Auto is the number of CPUs of the worker that
// reads. Default 1: the bundle stays together. It does not start more readers.
func NumWriters(n int) ReadOption {
	return readOption{"numWriters", func(c *readConfig) { c.NumWriters = n }}
}

// An AckMode says when messages are acknowledged. It is itself an option.
type AckMode string

// The acknowledgement modes.
const (
	// AckAfterCommit acknowledges once the runner has committed the bundle
	// (default): at least once.
	AckAfterCommit AckMode = "afterCommit"
	// AckEarly acknowledges soon after receipt: messages in hand are lost when
	// the worker dies.
	AckEarly AckMode = "early"
)

func (m AckMode) applyRead(c *readConfig) { c.give("ackMode"); c.AckMode = m }

// AckDeadline sets the step by which leases are renewed, 10 - 600 s. Omitted,
// it is three times the commit interval, 60 - 600 s, 180 s until that is known.
func AckDeadline(d time.Duration) ReadOption {
	return readDuration("ackDeadline", func(c *readConfig) *time.Duration { return &c.AckDeadline }, d)
}

// MaxRetryTime sets how long an ack or nack is tried. Default: 90 s, or the ack
// deadline where that is shorter.
func MaxRetryTime(d time.Duration) ReadOption {
	return readDuration("maxRetryTime", func(c *readConfig) *time.Duration { return &c.MaxRetryTime }, d)
}

// CommitTimeout sets how long an emitted message may wait for the commit of its
// bundle; then it is given back and counted as expired. Default 10 minutes.
func CommitTimeout(d time.Duration) ReadOption {
	return readDuration("commitTimeout", func(c *readConfig) *time.Duration { return &c.CommitTimeout }, d)
}

// A SchemaMode says which fields of Message are set. It is itself an option.
type SchemaMode string

// The schema modes.
const (
	// SchemaRaw sets Data.
	SchemaRaw SchemaMode = "raw"
	// SchemaBasic sets Data, MessageID and PublishTime (default).
	SchemaBasic SchemaMode = "basic"
	// SchemaSlim is SchemaBasic and OrderingKey.
	SchemaSlim SchemaMode = "slim"
	// SchemaDynamic sets Fields from the topic's Avro schema.
	SchemaDynamic SchemaMode = "dynamic"
	// SchemaMixed is SchemaDynamic with MessageID and PublishTime.
	SchemaMixed SchemaMode = "mixed"
)

func (m SchemaMode) applyRead(c *readConfig) { c.give("schemaMode"); c.SchemaMode = m }

// A MetadataMode says which fields are set beside those of the SchemaMode. It is
// itself an option.
type MetadataMode string

// The metadata modes.
const (
	// MetadataNone adds nothing (default).
	MetadataNone MetadataMode = "none"
	// MetadataBasic adds MessageID and PublishTime.
	MetadataBasic MetadataMode = "basic"
	// MetadataSlim adds MessageID, PublishTime, OrderingKey and AckID.
	MetadataSlim MetadataMode = "slim"
	// MetadataFull is MetadataSlim and Attributes.
	MetadataFull MetadataMode = "full"
)

func (m MetadataMode) applyRead(c *readConfig) { c.give("metadataMode"); c.MetadataMode = m }

// SchemaTopic names the topic whose schema SchemaDynamic and SchemaMixed decode
// to: an id or a full name. Default: the subscription's own topic.
func SchemaTopic(name string) ReadOption {
	return readOption{"topic", func(c *readConfig) { c.Topic = name }}
}

// Schema sets a schema of your own, in any SchemaMode: an Avro record in JSON,
// or a list like "id BIGINT NOT NULL, name STRING". Its fields are decoded from
// JSON in the body into Fields; a message that does not fit goes to Failed.
func Schema(text string) ReadOption {
	return readOption{"schema", func(c *readConfig) { c.Schema = text }}
}

// Streams sets the number of StreamingPull streams of a reader. Default 1; more
// where one stream is the limit, some 10 MB/s of the real service.
func Streams(n int) ReadOption {
	return readOption{"streams", func(c *readConfig) { c.Streams = n }}
}

// StallTimeout reopens a stream that has been silent, keep-alives included, for
// this long. Default 20 s.
func StallTimeout(d time.Duration) ReadOption {
	return readDuration("stallTimeout", func(c *readConfig) *time.Duration { return &c.StallTimeout }, d)
}

// TimestampSlack sets how much the times of TimestampAttribute may run behind
// the publish time without being late. Default 0.
func TimestampSlack(d time.Duration) ReadOption {
	return readDuration("timestampSlack", func(c *readConfig) *time.Duration { return &c.TimestampSlack }, d)
}

// A WatermarkPolicy says how far event time is complete. It is itself an option.
type WatermarkPolicy string

// The watermark policies.
const (
	// WatermarkPublishTime follows the publish time of the oldest message that
	// is not emitted yet (default).
	WatermarkPublishTime WatermarkPolicy = "publishTime"
	// WatermarkPublishTimeWithMaxLag is WatermarkPublishTime, but never more
	// than MaxLag behind the newest message.
	WatermarkPublishTimeWithMaxLag WatermarkPolicy = "publishTimeWithMaxLag"
	// WatermarkWallTime follows the clock.
	WatermarkWallTime WatermarkPolicy = "wallTime"
)

func (p WatermarkPolicy) applyRead(c *readConfig) {
	c.give("watermarkPolicy")
	c.WatermarkPolicy = p
}

// MaxLag is the most that WatermarkPublishTimeWithMaxLag falls behind.
func MaxLag(d time.Duration) ReadOption {
	return readDuration("maxLag", func(c *readConfig) *time.Duration { return &c.MaxLag }, d)
}

// WatermarkFunc lets the function registered under the name decide in place of
// a WatermarkPolicy; see RegisterWatermarkFunc.
func WatermarkFunc(name string) ReadOption {
	return readOption{"watermarkFunc", func(c *readConfig) { c.WatermarkFunc = name }}
}

// IdleThreshold sets how long the subscription must be quiet for the watermark
// to follow the clock. Default 5 s.
func IdleThreshold(d time.Duration) ReadOption {
	return readDuration("idleThreshold", func(c *readConfig) *time.Duration { return &c.IdleThreshold }, d)
}
