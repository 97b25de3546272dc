package pubsubio

import (
	"slices"
	"strings"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

// A readRow and a writeRow are the rows of the two tables.
type (
	readRow  = options.Option[ReadSettings]
	writeRow = options.Option[WriteSettings]
)

// readEnum is a row for an option whose values are constants.
func readEnum[T interface {
	~string
	ReadOption
}](i options.Info, aliases []options.Alias, values ...T) readRow {
	return options.Enum(i, options.Choice{Values: words(values), Aliases: aliases},
		func(s *ReadSettings, v string) { s.Options = append(s.Options, T(v)) })
}

func writeEnum[T interface {
	~string
	WriteOption
}](i options.Info, values ...T) writeRow {
	return options.Enum(i, options.Choice{Values: words(values)},
		func(s *WriteSettings, v string) { s.Options = append(s.Options, T(v)) })
}

func words[T ~string](values []T) []string {
	w := make([]string, len(values))
	for i, v := range values {
		w[i] = string(v)
	}
	return w
}

func trimmed[T any](f func(string) T) func(string) T {
	return func(s string) T { return f(strings.TrimSpace(s)) }
}

var readTable = options.Table[ReadSettings]{
	NoEffect: options.SparkNoEffect,
	Refused:  options.SparkRefused,
	Options: slices.Concat(
		connectionOptions(func(s *ReadSettings) *Connection { return &s.Connection }),
		sourceRows, gatherRows, settlingRows, schemaRows, clientRows, timeRows,
	),
	Elsewhere: map[string]string{
		"batching": sinkOnly, "batchDelay": sinkOnly, "publishTimeout": sinkOnly, "maxAttempts": sinkOnly,
		"orderingKeys": sinkOnly, "orderingFailure": sinkOnly, "compression": sinkOnly, "publishLatencyMetrics": sinkOnly,
	},
}

const (
	sinkOnly   = "is an option of the sink, not of the source"
	sourceOnly = "is an option of the source, not of the sink"
)

// sourceRows say what is read, from where to where.
var sourceRows = []readRow{
	options.Text(options.Info{
		Name: "subscription", Typed: "Read(s, conn, subscription)", Sample: "my-subscription", Source: spark, Required: true,
		Legal: "an id, or projects/PROJECT/subscriptions/ID",
		Doc:   "Subscription to read.",
	}, func(s *ReadSettings, v string) { s.Subscription = strings.TrimSpace(v) }),
	readEnum(options.Info{
		Name: "seek", Typed: "SeekBeginning", Default: "none", Sample: "beginning", Source: spark,
		Doc: "Where the subscription is set to, once for each job that is started. none never rewinds.",
	}, nil, SeekNone, SeekBeginning, SeekToTime, SeekToSnapshot),
	options.Instant(options.Info{
		Name: "seekTime", Typed: "SeekTime(t)", Sample: "2024-08-07T12:00:29.028-03:00", Source: spark,
		Doc: "Instant of seek=timestamp. UTC unless it has an offset.",
	}, readOpt(SeekTime)),
	options.Text(options.Info{
		Name: "seekSnapshot", Typed: "SeekSnapshot(name)", Sample: "projects/my-project/snapshots/recovery", Source: spark,
		Legal: "an id, or projects/PROJECT/snapshots/ID",
		Doc:   "Snapshot of seek=snapshot.",
	}, readOpt(trimmed(SeekSnapshot))),
	readEnum(options.Info{
		Name: "trigger", Typed: "TriggerAvailableNow", Default: "processingTime", Sample: "availableNow", Source: spark,
		Doc: "processingTime reads for ever; availableNow until the subscription is idle (three empty receives of a second) or limitTime; once gathers one batch during receiveTime.",
	}, nil, TriggerProcessingTime, TriggerAvailableNow, TriggerOnce),
	options.Instant(options.Info{
		Name: "limitTime", Typed: "LimitTime(t)", Sample: "2026-09-18T12:34:45Z", Source: spark,
		Doc: "Ends the read at the first receive that holds a message published then or later; needs trigger=availableNow. Those messages stay in the subscription.",
	}, readOpt(LimitTime)),
}

// gatherRows say how a bundle is filled.
var gatherRows = []readRow{
	readEnum(options.Info{
		Name: "gatherMode", Typed: "GatherImmediate", Default: "batch", Sample: "immediate", Source: spark,
		Doc: "batch collects until receiveTime, batchSize or batchCount; immediate emits as soon as messages are there. The value pull is a deprecated name of immediate.",
	}, []options.Alias{{Name: "pull", Means: string(GatherImmediate), Notice: "is deprecated; write gatherMode=immediate"}},
		GatherBatch, GatherImmediate),
	options.Duration(options.Info{
		Name: "receiveTime", Typed: "ReceiveTime(d)", Default: "auto", Sample: "20s", Source: spark, Auto: true,
		Doc: "How long a bundle may gather messages. Omitted: the interval less what recent commits took and a margin. Shorter than processingTime; required with trigger=once.",
	}, seconds, readOpt(ReceiveTime)),
	options.Duration(options.Info{
		Name: "processingTime", Typed: "ProcessingTime(d)", Default: "measured", Sample: "60s", Source: spark,
		Doc: "Interval between bundles for which an omitted receiveTime is found.",
	}, seconds, readOpt(ProcessingTime)),
	options.Size(options.Info{
		Name: "batchSize", Typed: "BatchSize(bytes)", Default: "64m", Sample: "16m", Source: spark,
		Doc: "Most payload bytes of a bundle, and of what is outstanding unless maxOutstandingBytes says otherwise.",
	}, readOpt(asRead(BatchSize))),
	options.Int(options.Info{
		Name: "batchCount", Typed: "BatchCount(n)", Default: "no limit", Legal: "1 or more", Sample: "25000", Source: spark,
		Doc: "Most messages of a bundle.",
	}, readOpt(asRead(BatchCount))),
	options.Func(options.Info{
		Name: "numWriters", Typed: "NumWriters(n)", Default: "1", Legal: "1 or more, or auto", Sample: "4", Source: spark,
		Doc: "Number of parts each bundle is split into before it leaves the source, so that as many workers can write it; auto is the number of CPUs. It does not start more readers.",
	}, parseWriters, readOpt(NumWriters)),
}

// settlingRows say when messages are acknowledged.
var settlingRows = []readRow{
	readEnum(options.Info{
		Name: "ackMode", Typed: "AckEarly", Default: "afterCommit", Sample: "early", Source: spark,
		Doc: "afterCommit acknowledges once the runner has committed the bundle; early soon after receipt, which loses messages when a worker dies.",
	}, nil, AckAfterCommit, AckEarly),
	options.Duration(options.Info{
		Name: "ackDeadline", Typed: "AckDeadline(d)", Default: "auto", Legal: "10s to 600s", Sample: "30s", Source: spark, Auto: true,
		Doc: "Step by which leases are renewed until the commit. Omitted: three times the commit interval, 60s to 600s, and 180s until that is known.",
	}, seconds, readOpt(AckDeadline)),
	options.Duration(options.Info{
		Name: "maxRetryTime", Typed: "MaxRetryTime(d)", Default: "min(90s, ackDeadline)", Sample: "45s", Source: spark,
		Doc: "How long an ack or nack is tried.",
	}, seconds, readOpt(MaxRetryTime)),
	options.Duration(options.Info{
		Name: "commitTimeout", Typed: "CommitTimeout(d)", Default: "10m", Legal: "1s or more", Sample: "15m",
		Doc: "How long an emitted message may wait for the commit of its bundle; then it is given back and counted as expired.",
	}, seconds, readOpt(CommitTimeout)),
}

// schemaRows say which fields are set.
var schemaRows = []readRow{
	readEnum(options.Info{
		Name: "schemaMode", Typed: "SchemaMixed", Default: "basic", Sample: "slim", Source: spark,
		Doc: "raw: body; basic: body, messageid, publishtime; slim: basic and orderingkey; dynamic: the fields of the topic's Avro schema; mixed: dynamic with messageid, publishtime.",
	}, nil, SchemaRaw, SchemaBasic, SchemaSlim, SchemaDynamic, SchemaMixed),
	readEnum(options.Info{
		Name: "metadataMode", Typed: "MetadataFull", Default: "none", Sample: "full", Source: spark,
		Doc: "Columns beside those of schemaMode, basic: messageid, publishtime; slim: basic and orderingkey, ackid; full: slim and attributes.",
	}, nil, MetadataNone, MetadataBasic, MetadataSlim, MetadataFull),
	options.Text(options.Info{
		Name: "topic", Typed: "SchemaTopic(name)", Default: "the subscription's", Sample: "my-topic", Source: spark,
		Legal: "an id, or projects/PROJECT/topics/ID",
		Doc:   "Topic whose schema schemaMode=dynamic and mixed decode to.",
	}, readOpt(trimmed(SchemaTopic))),
	options.Text(options.Info{
		Name: "schema", Typed: "Schema(text)", Sample: "id BIGINT NOT NULL, name STRING", Source: spark,
		Legal: "an Avro record in JSON, or NAME TYPE, ...",
		Doc:   "Schema of your own, in any schemaMode; its fields are decoded from JSON in the body.",
	}, readOpt(Schema)),
}

// clientRows bound what a worker holds.
var clientRows = []readRow{
	options.Int(options.Info{
		Name: "maxOutstandingMessages", Typed: "MaxOutstandingMessages(n)", Default: "batchCount, else 10000", Legal: "1 or more", Sample: "1000",
		Doc: "Most messages in hand: buffered, prefetched, or emitted and not committed. The rate is at most this divided by the commit interval.",
	}, readOpt(asRead(MaxOutstandingMessages))),
	options.Size(options.Info{
		Name: "maxOutstandingBytes", Typed: "MaxOutstandingBytes(bytes)", Default: "batchSize", Sample: "128m",
		Doc: "Most payload bytes in hand.",
	}, readOpt(asRead(MaxOutstandingBytes))),
	options.Int(options.Info{
		Name: "maxWorkers", Typed: "MaxWorkers(n)", Default: "1", Legal: "1 or more", Sample: "4",
		Doc: "Number of reader groups, which is the number of workers that can read at once.",
	}, readOpt(asRead(MaxWorkers))),
	options.Int(options.Info{
		Name: "clientsPerWorker", Typed: "ClientsPerWorker(n)", Default: "1", Legal: "1 to streams", Sample: "1",
		Doc: "Connections of a worker process.",
	}, readOpt(asRead(ClientsPerWorker))),
	options.Int(options.Info{
		Name: "streams", Typed: "Streams(n)", Default: "1", Legal: "1 or more", Sample: "2",
		Doc: "StreamingPull streams of a reader group.",
	}, readOpt(Streams)),
	options.Duration(options.Info{
		Name: "stallTimeout", Typed: "StallTimeout(d)", Default: "20s", Legal: "1s or more", Sample: "40s",
		Doc: "Silence, keep-alives included, after which a stream is opened anew.",
	}, seconds, readOpt(StallTimeout)),
	options.Text(options.Info{
		Name: "runner", Typed: "Runner(name)", Default: "the --runner flag", Sample: "flink",
		Doc: "Runner the pipeline is for; it decides when a bundle counts as committed.",
	}, readOpt(asRead(Runner))),
}

// timeRows say what time it is, and which messages are the same.
var timeRows = []readRow{
	options.Text(options.Info{
		Name: "timestampAttribute", Typed: "TimestampAttribute(name)", Default: "the publish time", Sample: "ts",
		Doc: "Attribute that carries the event time, milliseconds since 1970 or RFC 3339.",
	}, readOpt(asRead(TimestampAttribute))),
	options.Duration(options.Info{
		Name: "timestampSlack", Typed: "TimestampSlack(d)", Default: "0s", Sample: "30s",
		Doc: "How much the times of timestampAttribute may run behind the publish time without being late.",
	}, seconds, readOpt(TimestampSlack)),
	options.Text(options.Info{
		Name: "idAttribute", Typed: "IDAttribute(name)", Sample: "id",
		Doc: "Attribute that carries a message's own id; messages whose id this worker has lately seen are dropped and acknowledged.",
	}, readOpt(asRead(IDAttribute))),
	readEnum(options.Info{
		Name: "watermarkPolicy", Typed: "WatermarkWallTime", Default: "publishTime", Sample: "wallTime",
		Doc: "publishTime follows the oldest message not emitted; publishTimeWithMaxLag too, but never more than maxLag behind the newest; wallTime follows the clock.",
	}, nil, WatermarkPublishTime, WatermarkPublishTimeWithMaxLag, WatermarkWallTime),
	options.Duration(options.Info{
		Name: "maxLag", Typed: "MaxLag(d)", Sample: "2m",
		Doc: "The most that watermarkPolicy=publishTimeWithMaxLag falls behind.",
	}, seconds, readOpt(MaxLag)),
	options.Text(options.Info{
		Name: "watermarkFunc", Typed: "WatermarkFunc(name)", Legal: "a name given to RegisterWatermarkFunc", Sample: "mine",
		Doc: "Registered function that decides in place of watermarkPolicy.",
	}, readOpt(WatermarkFunc)),
	options.Duration(options.Info{
		Name: "idleThreshold", Typed: "IdleThreshold(d)", Default: "5s", Sample: "10s",
		Doc: "How long the subscription must be quiet for the watermark to follow the clock.",
	}, seconds, readOpt(IdleThreshold)),
}
