package pubsubio

import (
	"slices"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

var writeTable = options.Table[WriteSettings]{
	NoEffect: options.SparkNoEffect,
	Refused:  options.SparkRefused,
	Options: slices.Concat(
		connectionOptions(func(s *WriteSettings) *Connection { return &s.Connection }),
		topicRows, batchRows, publishRows,
	),
	Elsewhere: sourceOptions(),
}

// sourceOptions lists the options that only the source has.
func sourceOptions() map[string]string {
	m := map[string]string{}
	for _, rows := range [][]readRow{sourceRows, gatherRows, settlingRows, schemaRows, clientRows, timeRows} {
		for _, r := range rows {
			m[r.Name] = sourceOnly
		}
	}
	for _, rows := range [][]writeRow{topicRows, batchRows, publishRows} {
		for _, r := range rows {
			delete(m, r.Name)
		}
	}
	return m
}

// topicRows say where messages go, and what is written beside the body.
var topicRows = []writeRow{
	options.Text(options.Info{
		Name: "topic", Typed: "Topic(name)", Default: "each message's own", Sample: "my-topic",
		Legal: "an id, or projects/PROJECT/topics/ID",
		Doc:   "The one topic written to. Omitted: each message goes to its own Topic.",
	}, writeOpt(trimmed(Topic))),
	options.Text(options.Info{
		Name: "idAttribute", Typed: "IDAttribute(name)", Sample: "id",
		Doc: "Attribute written with the message's id where it does not carry one; it is also the ID of the outcome.",
	}, writeOpt(asWrite(IDAttribute))),
	options.Text(options.Info{
		Name: "timestampAttribute", Typed: "TimestampAttribute(name)", Sample: "ts",
		Doc: "Attribute written with the element's timestamp, in milliseconds since 1970.",
	}, writeOpt(asWrite(TimestampAttribute))),
	options.Bool(options.Info{
		Name: "orderingKeys", Typed: "OrderingKeys(on)", Default: "true", Sample: "false",
		Doc: "Whether ordering keys are sent, each key in order; false drops them.",
	}, writeOpt(OrderingKeys)),
	writeEnum(options.Info{
		Name: "orderingFailure", Typed: "OrderingHold", Default: "resume", Sample: "hold",
		Doc: "After a message of a key failed: resume goes on with the next, hold sends the key's later messages of the bundle to Failed, unsent.",
	}, OrderingResume, OrderingHold),
}

// batchRows say how publish requests are filled.
var batchRows = []writeRow{
	writeEnum(options.Info{
		Name: "batching", Typed: "BatchExact", Default: "bundle", Sample: "exact",
		Doc: "bundle publishes an incomplete request when the bundle ends; exact gathers over bundles until batchCount or batchDelay and promises no order; streaming publishes each message at once.",
	}, BatchBundle, BatchExact, BatchStreaming),
	options.Int(options.Info{
		Name: "batchCount", Typed: "BatchCount(n)", Default: "1000, or 50 with batching=exact", Legal: "1 to 1000", Sample: "100",
		Doc: "Most messages of a publish request.",
	}, writeOpt(asWrite(BatchCount))),
	options.Size(options.Info{
		Name: "batchSize", Typed: "BatchSize(bytes)", Default: "10000000", Legal: "1 to 10000000", Sample: "1m",
		Doc: "Most bytes of a publish request.",
	}, writeOpt(asWrite(BatchSize))),
	options.Duration(options.Info{
		Name: "batchDelay", Typed: "BatchDelay(d)", Default: "5s", Sample: "2s",
		Doc: "How long the first message of an incomplete batch of batching=exact waits for others.",
	}, seconds, writeOpt(BatchDelay)),
}

// publishRows say how requests are sent.
var publishRows = []writeRow{
	options.Duration(options.Info{
		Name: "publishTimeout", Typed: "PublishTimeout(d)", Default: "1m", Sample: "30s",
		Doc: "How long a batch may take, retries included; then its messages are Failed and marked Unknown.",
	}, seconds, writeOpt(PublishTimeout)),
	options.Int(options.Info{
		Name: "maxAttempts", Typed: "MaxAttempts(n)", Default: "10", Legal: "1 or more", Sample: "3",
		Doc: "How many publish calls may carry a message before it is Failed.",
	}, writeOpt(MaxAttempts)),
	options.Int(options.Info{
		Name: "maxOutstandingMessages", Typed: "MaxOutstandingMessages(n)", Default: "10000", Legal: "1 or more", Sample: "5000",
		Doc: "Most messages handed to the client and not answered.",
	}, writeOpt(asWrite(MaxOutstandingMessages))),
	options.Size(options.Info{
		Name: "maxOutstandingBytes", Typed: "MaxOutstandingBytes(bytes)", Default: "64m", Sample: "32m",
		Doc: "Most bytes handed to the client and not answered.",
	}, writeOpt(asWrite(MaxOutstandingBytes))),
	options.Int(options.Info{
		Name: "maxWorkers", Typed: "MaxWorkers(n)", Default: "0", Legal: "0 or more", Sample: "4",
		Doc: "Number of shards that publish; 0 is unbounded.",
	}, writeOpt(asWrite(MaxWorkers))),
	options.Int(options.Info{
		Name: "clientsPerWorker", Typed: "ClientsPerWorker(n)", Default: "1", Legal: "1 or more", Sample: "2",
		Doc: "Connections of a worker process.",
	}, writeOpt(asWrite(ClientsPerWorker))),
	writeEnum(options.Info{
		Name: "compression", Typed: "CompressionGzip", Default: "none", Sample: "gzip",
		Doc: "Compression of publish requests.",
	}, CompressionNone, CompressionGzip),
	options.Bool(options.Info{
		Name: "publishLatencyMetrics", Typed: "PublishLatencyMetrics(on)", Default: "false", Sample: "true",
		Doc: "Measures the time of each batch from being handed over to its answer.",
	}, writeOpt(PublishLatencyMetrics)),
	options.Text(options.Info{
		Name: "runner", Typed: "Runner(name)", Default: "the --runner flag", Sample: "flink",
		Doc: "Runner the pipeline is for.",
	}, writeOpt(asWrite(Runner))),
}
