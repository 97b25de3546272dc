package pubsubio

import (
	"context"
	"errors"
)

// A decoder turns a received message into what the schema and metadata modes
// ask for. It is safe for concurrent use once it is prepared.
type decoder struct {
	cfg     readConfig
	keep    projection
	user    *userSchema  // of the option schema
	service schemaSource // of topic schemas
	topic   *topicSchema // set by prepare where the modes need it
}

func newDecoder(conn Connection, cfg readConfig) (*decoder, error) {
	d := &decoder{cfg: cfg, keep: newProjection(cfg.SchemaMode, cfg.MetadataMode), service: &schemaService{conn: conn}}
	if cfg.Schema == "" {
		return d, nil
	}
	var err error
	d.user, err = parseUserSchema(cfg.Schema)
	return d, err
}

// prepare takes the schema found at the start. Doing it again does nothing.
func (d *decoder) prepare(sub subscription) error {
	if !d.cfg.needsTopic() || d.topic != nil {
		return nil
	}
	var err error
	d.topic, err = newTopicSchema(d.service, sub.SchemaName, sub.SchemaRevision, sub.Schema)
	return err
}

// decode returns the message with the fields that were asked for. The error
// names the field and says what is wrong with it; errSchemaUnavailable is no
// fault of the message.
func (d *decoder) decode(ctx context.Context, m Message) (Message, error) {
	var err error
	switch {
	case d.user != nil:
		m.Fields, err = d.user.decode(&m)
	case d.topic != nil:
		m.Fields, err = d.topic.decode(ctx, &m)
	case d.cfg.needsTopic():
		err = errors.New("decoding before the topic's schema is known")
	}
	if err != nil {
		return Message{}, err
	}
	d.keep.project(&m)
	return m, nil
}
