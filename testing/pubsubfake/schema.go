package pubsubfake

import (
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

type schemaStore struct {
	clock Clock
}

func (s *schemaStore) checkSettings(*pubsubpb.SchemaSettings) error { return nil }
func (s *schemaStore) apply(*pubsubpb.SchemaSettings, []*pubsubpb.PubsubMessage) error {
	return nil
}
