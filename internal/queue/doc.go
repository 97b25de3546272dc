// Package queue is what the queue-like sources (Pub/Sub, Solace, JMS) share: a
// Reader that lives longer than a bundle.
//
// A Reader holds a broker's messages from the moment they are received until
// the broker knows what became of them. Its client side (Broker.Receive) fills
// a bounded buffer; ProcessElement opens a Call, takes messages from the buffer
// and emits them; internal/commit tells what became of the bundle; then the
// Reader acknowledges or gives back.
//
//	Receive -> buffer -> Call.Next -> emit -> bundle ends -> commit -> Settle
//
// The files follow a message: delivery.go and fifo.go (what is held), reader.go
// (receipt), call.go (one ProcessElement), result.go (its end and outcome),
// settle.go (acks and leases), watermark.go; and the rest: life.go (receiving,
// parking, closing) and ending.go (drain) of a reader, restriction.go (what the
// runner carries), registry.go and process.go (all readers).
package queue
