// Package pubsubio reads and writes Google Cloud Pub/Sub from Apache Beam
// pipelines, natively in Go.
//
// # What it reads and writes
//
// Read takes a subscription and gives a PCollection of Message; what cannot be
// decoded comes out of Failed with its raw body. Write publishes a PCollection
// of Message to one topic or to each message's own, and has exactly one outcome
// for each message: Published or Failed.
//
//	r := pubsubio.Read(s, conn, "orders-sub", pubsubio.MetadataFull)
//	w := pubsubio.Write(s, conn, r.Messages, pubsubio.Topic("orders-copy"))
//	beam.ParDo0(s, logFailure, w.Failed)
//
// By default a message read has Data, MessageID and PublishTime, as in the Spark
// connector; MetadataFull adds ordering key and attributes, which a copy wants.
//
// # Delivery
//
// At least once. A message is acknowledged when the runner has committed the
// bundle it was emitted in, never before (ackMode early excepted). Its lease is
// renewed until then. A bundle that fails gives its messages back at once; one
// whose commit is not heard of does so after CommitTimeout. What "committed" is
// worth depends on the runner: Flink and Dataflow keep shuffled data, Prism
// keeps it in memory, so on Prism only a pipeline that is fused from Read to
// Write survives the death of its process. Duplicates come from crashes, lost
// leases and lost publish answers; they are bounded by MaxOutstandingMessages
// for each crash. IDAttribute removes those that one worker sees.
//
// The rate is at most MaxOutstandingMessages divided by the time from emitting a
// message to its commit.
//
// # Order
//
// Messages of one ordering key come in order, as long as nothing is redelivered,
// and Write keeps the order of a key within a bundle and between the bundles of
// one worker. Without keys nothing is ordered.
//
// # Watermark
//
// Event time is the publish time, or TimestampAttribute. The watermark stays
// behind what is buffered and what was received in the last minute; a
// subscription that is quiet for IdleThreshold lets it follow the clock. Late
// can be: messages read from a long backlog out of order by more than half a
// minute, and redeliveries after a crash of more than a lease.
//
// # Authentication
//
// Application Default Credentials, or Connection.CredentialsFile, a path on the
// worker. The file is read again for each new connection. With EmulatorHost no
// credentials are used.
//
// # Options
//
// Every option of the spark-streaming-google-pubsub connector works under its
// own name through ReadFromMap, and as a typed option. docs/options.md has the
// table with defaults.
//
// # What it does not do
//
// It creates and deletes no topics and subscriptions, reads no push
// subscriptions, and decodes no Protocol Buffers schemas.
package pubsubio
