package pubsub_test

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/internal/queue"
	"github.com/beam-brokers/beam-brokers/pubsubio"
	"github.com/beam-brokers/beam-brokers/testing/conformance"
)

func init() {
	register.Function1x1(fromRead)
	register.Function1x1(fromFailed)
	register.Function1x1(published)
	register.Function1x1(failed)
	register.DoFn1x1[conformance.Message, pubsubio.Message](&toWriteFn{})
	beam.RegisterType(reflect.TypeFor[toWriteFn]())
}

// lease is the shortest that the service allows, so that what a test leaves
// unsettled shows soon.
const lease = 10 * time.Second

func fromRead(m pubsubio.Message) conformance.Message {
	return conformance.Message{Body: m.Data, Attributes: m.Attributes, Key: m.OrderingKey, ID: m.MessageID}
}

func fromFailed(m pubsubio.FailedMessage) conformance.Failure {
	return conformance.Failure{Body: m.Message.Data, Reason: m.Reason}
}

func published(r pubsubio.PublishResult) conformance.Outcome { return conformance.Outcome{ID: r.ID} }

func failed(m pubsubio.FailedMessage) conformance.Outcome {
	return conformance.Outcome{ID: m.Message.MessageID, Failed: true, Reason: m.Reason}
}

// toWriteFn makes messages for Write; those that name no topic get Topic, which
// is empty where the transform has one.
type toWriteFn struct{ Topic string }

func (f *toWriteFn) ProcessElement(m conformance.Message) pubsubio.Message {
	if m.To == "" {
		m.To = f.Topic
	}
	return pubsubio.Message{Topic: m.To, Data: m.Body, Attributes: m.Attributes, OrderingKey: m.Key, MessageID: m.ID}
}

// A place is a topic and a subscription to it, as the connector sees them.
type place struct {
	conn       pubsubio.Connection
	topic, sub string // full names
}

func newPlace(host string, n int) place {
	return place{
		conn:  pubsubio.Connection{ProjectID: "conformance", EmulatorHost: host},
		topic: fmt.Sprintf("projects/conformance/topics/place-%d", n),
		sub:   fmt.Sprintf("projects/conformance/subscriptions/place-%d", n),
	}
}

func (p *place) Read(s beam.Scope, o conformance.ReadOptions) (messages, undecodable beam.PCollection) {
	opts := []pubsubio.ReadOption{pubsubio.AckDeadline(lease), pubsubio.MetadataFull}
	if o.MaxOutstanding > 0 {
		opts = append(opts, pubsubio.MaxOutstandingMessages(o.MaxOutstanding))
	}
	if o.Decode {
		opts = append(opts, pubsubio.Schema("id BIGINT NOT NULL"))
	}
	r := pubsubio.Read(s, p.conn, p.sub, opts...)
	return beam.ParDo(s, fromRead, r.Messages), beam.ParDo(s, fromFailed, r.Failed)
}

func (p *place) Write(s beam.Scope, in beam.PCollection, o conformance.WriteOptions) beam.PCollection {
	to := &toWriteFn{}
	var opts []pubsubio.WriteOption
	if o.PerMessage {
		to.Topic = p.topic
	} else {
		opts = append(opts, pubsubio.Topic(p.topic))
	}
	if o.BatchCount > 0 {
		opts = append(opts, pubsubio.BatchCount(o.BatchCount))
	}
	r := pubsubio.Write(s, p.conn, beam.ParDo(s, to, in), opts...)
	return beam.Flatten(s, beam.ParDo(s, published, r.Published), beam.ParDo(s, failed, r.Failed))
}

func (p *place) Decodable(i int) conformance.Message {
	return conformance.Message{Body: fmt.Appendf(nil, `{"id": %d}`, i)}
}

func (p *place) Undecodable() conformance.Message {
	return conformance.Message{Body: []byte("\x00 no JSON {"), Attributes: map[string]string{"a": "1"}}
}

func (p *place) UnknownNames() []string { return []string{"absent-topic", "a b#"} }

func toService(m conformance.Message) *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: m.Body, Attributes: m.Attributes, OrderingKey: m.Key}
}

func fromService(m *pubsubpb.PubsubMessage) conformance.Message {
	return conformance.Message{Body: m.GetData(), Attributes: m.GetAttributes(), Key: m.GetOrderingKey(), ID: m.GetMessageId()}
}

// readers is the part of a harness that is about this process.
type readers struct{}

func (readers) Drain(emitFor time.Duration) (lift func()) { return queue.DrainAll(emitFor) }
func (readers) Wait(ctx context.Context) error            { return queue.WaitClosed(ctx) }
func (readers) Close(ctx context.Context) error           { return queue.CloseAll(ctx) }
