// Package pubsubfake is a Pub/Sub server in the process of a test. It speaks
// the real gRPC protocol (Publisher, Subscriber and SchemaService) to the real
// client, over TCP or over a pipe in memory, so that a test may run inside a
// testing/synctest bubble.
//
//	srv := pubsubfake.New()
//	defer srv.Close()
//	conn, err := srv.Dial(ctx) // or srv.Start("127.0.0.1:0")
//	client, err := pubsub.NewClient(ctx, "my-project", option.WithGRPCConn(conn))
//
// It does what tests of a connector need: leases with redelivery, flow control
// of streams, ordering keys, filters, snapshots and seek, retained messages,
// dead letter topics, exactly-once errors, Avro schemas, and the service's
// limits. Beside the protocol a Server has a control side: back-dated publish
// times, bulk loading, faults, duplicates, streams that end or fall silent,
// counters of everything handed out and settled, and a hook that sees each
// event in order.
//
// Where the fake differs from Google's emulator and from the documents of the
// real service is listed in the README beside this file.
//
// Messages are stored once and shared by all readers: whoever gets a
// *pubsubpb.PubsubMessage from this package must not change it.
//
// The package is experimental: names may change until version 1.
package pubsubfake
