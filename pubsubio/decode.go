package pubsubio

import "context"

// A decoder turns a received message into what the schema and metadata modes
// ask for.
type decoder struct {
	cfg readConfig
}

func newDecoder(_ Connection, cfg readConfig) (*decoder, error) { return &decoder{cfg: cfg}, nil }

func (d *decoder) prepare(subscription) error { return nil }

func (d *decoder) decode(_ context.Context, m Message) (Message, error) { return m, nil }
