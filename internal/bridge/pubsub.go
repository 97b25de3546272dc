package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/internal/options"
	"github.com/beam-brokers/beam-brokers/pubsubio"
)

func init() {
	register.Function1x1(pubsubToRecord)
	register.Function1x1(pubsubToFailed)
	register.Function1x1(recordToPubsub)
}

var pubsubSystem = System{
	Name:   "pubsub",
	Docs:   pubsubio.OptionDocs,
	Secret: secretOption(pubsubio.OptionDocs),
	Source: pubsubSource,
	Sink:   pubsubSink,
}

// secretOption is System.Secret of a system whose documents say which options
// are secret. A name that they do not have may be a misspelt secret.
func secretOption(docs func() options.Doc) func(string) bool {
	return func(name string) bool {
		for _, section := range docs().Sections {
			for _, row := range section.Rows {
				known := row.Name == name || slices.ContainsFunc(row.Aliases, func(a options.Alias) bool { return a.Name == name })
				if known {
					return row.Secret
				}
			}
		}
		return true
	}
}

func pubsubSource(opts map[string]string) (*Source, error) {
	opts = Endpoint{Options: opts}.clone()
	if opts["metadataMode"] == "" {
		// A bridge carries attributes and ordering keys over.
		opts["metadataMode"] = string(pubsubio.MetadataFull)
	}
	set, err := pubsubio.ReadFromMap(opts)
	if err != nil {
		return nil, err
	}
	return &Source{
		Name:    "subscription " + set.Subscription,
		Notices: set.Notices,
		Read: func(s beam.Scope) (records, failed beam.PCollection) {
			r := pubsubio.Read(s, set.Connection, set.Subscription, set.Options...)
			return beam.ParDo(s, pubsubToRecord, r.Messages), beam.ParDo(s, pubsubToFailed, r.Failed)
		},
		Check: func(ctx context.Context) ([]string, error) {
			return nil, pubsubio.CheckRead(ctx, set.Connection, set.Subscription, set.Options...)
		},
	}, nil
}

func pubsubSink(opts map[string]string) (*Sink, error) {
	set, err := pubsubio.WriteFromMap(opts)
	if err != nil {
		return nil, err
	}
	sink := &Sink{
		Name:    "topic " + strings.TrimSpace(opts["topic"]),
		Notices: set.Notices,
		Write: func(s beam.Scope, records beam.PCollection) (published, failed beam.PCollection) {
			w := pubsubio.Write(s, set.Connection, beam.ParDo(s, recordToPubsub, records), set.Options...)
			return w.Published, beam.ParDo(s, pubsubToFailed, w.Failed)
		},
		Resend: func(s beam.Scope, records beam.PCollection) beam.PCollection {
			return pubsubio.Resend(s, set.Connection, beam.ParDo(s, recordToPubsub, records), set.Options...)
		},
		Check: func(ctx context.Context) ([]string, error) {
			return nil, pubsubio.CheckWrite(ctx, set.Connection, set.Options...)
		},
	}
	if strings.TrimSpace(opts["topic"]) == "" {
		sink.Name, sink.NeedsDestination = "each message's own topic", "topic"
	}
	if strings.TrimSpace(opts["batching"]) == string(pubsubio.BatchExact) {
		sink.Boundary = "batching=exact gathers messages over bundles"
	}
	return sink, nil
}

// pubsubToRecord maps a message that was read.
func pubsubToRecord(m pubsubio.Message) Record {
	return Record{
		ID:          m.MessageID,
		Destination: m.Topic,
		Body:        m.Data,
		HasBody:     true,
		Key:         []byte(m.OrderingKey),
		HasKey:      m.OrderingKey != "",
		Headers:     attributesToHeaders(m.Attributes),
		Time:        m.PublishTime,
	}
}

// attributesToHeaders brings attributes into an order, since they have none.
func attributesToHeaders(attributes map[string]string) []Header {
	if len(attributes) == 0 {
		return nil
	}
	hs := make([]Header, 0, len(attributes))
	for name, value := range attributes {
		hs = append(hs, header(name, value))
	}
	slices.SortFunc(hs, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return hs
}

// recordToPubsub maps a message to be written.
func recordToPubsub(r Record) pubsubio.Message {
	m := pubsubio.Message{
		Topic:       r.Destination,
		Data:        r.Body,
		MessageID:   r.ID,
		PublishTime: r.Time,
		OrderingKey: string(r.Key),
	}
	if len(r.Headers) > 0 {
		m.Attributes = make(map[string]string, len(r.Headers))
		for _, h := range r.Headers {
			if h.Kind == KindNull {
				continue // an attribute is a text; there is no other
			}
			name := h.Name
			for n := 2; ; n++ { // a name that comes again gets a number
				if _, taken := m.Attributes[name]; !taken {
					break
				}
				name = fmt.Sprintf("%s.%d", h.Name, n)
			}
			m.Attributes[name] = string(h.Value)
		}
	}
	return m
}

func pubsubToFailed(f pubsubio.FailedMessage) FailedRecord {
	return FailedRecord{Record: pubsubToRecord(f.Message), Reason: f.Reason, Permanent: f.Permanent, Unknown: f.Unknown}
}

// deadLetterHeaders are what a dead letter carries beside the message.
func deadLetterHeaders(f FailedRecord, source string, now time.Time) []Header {
	hs := []Header{
		header("dead_letter_reason", clip(f.Reason, 1000)),
		header("dead_letter_source", source),
		header("dead_letter_id", f.Record.ID),
		header("dead_letter_failed_at", now.UTC().Format(time.RFC3339Nano)),
	}
	if !f.Record.Time.IsZero() {
		hs = append(hs, header("dead_letter_time", f.Record.Time.UTC().Format(time.RFC3339Nano)))
	}
	if f.Unknown {
		hs = append(hs, header("dead_letter_unknown", "true"))
	}
	return hs
}

// clip shortens s to n bytes, at the start of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
