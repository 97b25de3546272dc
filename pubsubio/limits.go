package pubsubio

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"google.golang.org/protobuf/encoding/protowire"
)

// The service's limits of a message, as its documents have them. They are
// checked here because the service's answer refuses a whole request, and the
// answer to one that is too large for gRPC looks like a busy server.
const (
	maxAttributes     = 100
	maxAttributeKey   = 256
	maxAttributeValue = 1024
	maxOrderingKey    = 1024

	// topicRoom is kept free in a request for the name of its topic.
	topicRoom = 512
)

// A limitError says which limit of the service a message breaks.
type limitError struct {
	Field         string
	Limit, Actual int
	Unit          string
}

func (e *limitError) Error() string {
	return fmt.Sprintf("%s: %d %s, the limit is %d", e.Field, e.Actual, e.Unit, e.Limit)
}

// attributes returns the attributes m is published with: its own, and those
// that the transform adds for its id and its event time (ms).
func (c *writeConfig) attributes(m Message, eventTime int64) map[string]string {
	_, hasID := m.Attributes[c.IDAttribute]
	addID := c.IDAttribute != "" && !hasID && m.MessageID != ""
	// An element without a time of its own stays without one.
	addTime := c.TimestampAttribute != "" && mtime.Time(eventTime) != mtime.MinTimestamp
	if !addID && !addTime {
		return m.Attributes
	}
	all := make(map[string]string, len(m.Attributes)+2)
	for k, v := range m.Attributes {
		all[k] = v
	}
	if addID {
		all[c.IDAttribute] = m.MessageID
	}
	if addTime {
		all[c.TimestampAttribute] = strconv.FormatInt(eventTime, 10)
	}
	return all
}

// destination returns the full name of the topic of m.
func (c *writeConfig) destination(m Message) (string, error) {
	if c.Topic != "" {
		return c.Topic, nil
	}
	if m.Topic == "" {
		return "", errors.New("topic: is empty, and the transform has none of its own")
	}
	mistakes := &mistakes{}
	mistakes.resource(Connection{ProjectID: c.ProjectID}, "topic", "topics", m.Topic)
	if err := errors.Join(mistakes.errs...); err != nil {
		return "", err
	}
	return fullName(c.ProjectID, "topics", m.Topic), nil
}

// orderingKey returns the key m is sent with.
func (c *writeConfig) orderingKey(m Message) string {
	if !c.OrderingKeys {
		return ""
	}
	return m.OrderingKey
}

// checksInOrder tells whether m is to be checked when its turn to be sent comes:
// a key that is to be held after a failure is held from the failure's place in
// the order on, which only the publisher knows.
func (c *writeConfig) checksInOrder(m Message) bool {
	return c.OrderingFailure == OrderingHold && c.orderingKey(m) != ""
}

// check returns what the service would refuse m for.
func (c *writeConfig) check(m Message, eventTime int64, topic string) error {
	attrs := c.attributes(m, eventTime)
	if len(m.Data) == 0 && len(attrs) == 0 {
		return errors.New("data: is empty, and there is no attribute; a message needs one of them")
	}
	if n := len(attrs); n > maxAttributes {
		return &limitError{"attributes", maxAttributes, n, "of them"}
	}
	for k, v := range attrs {
		if err := checkAttribute(k, v); err != nil {
			return err
		}
	}
	key := c.orderingKey(m)
	if n := len(key); n > maxOrderingKey {
		return &limitError{"orderingKey", maxOrderingKey, n, "bytes"}
	}
	if !utf8.ValidString(key) {
		return errors.New("orderingKey: is not valid UTF-8")
	}
	if n := c.itemBytes(m, eventTime) + topicBytes(topic); n > maxRequestBytes {
		return &limitError{"data", maxRequestBytes, n, "bytes with attributes and the request's overhead"}
	}
	return nil
}

func checkAttribute(k, v string) error {
	switch {
	case k == "":
		return errors.New("attribute key: is empty")
	case len(k) > maxAttributeKey:
		return &limitError{fmt.Sprintf("attribute key %.32q...", k), maxAttributeKey, len(k), "bytes"}
	case strings.HasPrefix(k, "goog"):
		return fmt.Errorf("attribute key %q: starts with goog, which is reserved", k)
	case len(v) > maxAttributeValue:
		return &limitError{fmt.Sprintf("attribute value of %q", k), maxAttributeValue, len(v), "bytes"}
	case !utf8.ValidString(k) || !utf8.ValidString(v):
		return fmt.Errorf("attribute %q: is not valid UTF-8", k)
	}
	return nil
}

// itemBytes returns what m adds to the encoded publish request.
func (c *writeConfig) itemBytes(m Message, eventTime int64) int {
	n := 0
	if len(m.Data) > 0 {
		n += fieldBytes(len(m.Data))
	}
	for k, v := range c.attributes(m, eventTime) {
		n += fieldBytes(fieldBytes(len(k)) + fieldBytes(len(v)))
	}
	if key := c.orderingKey(m); key != "" {
		n += fieldBytes(len(key))
	}
	return fieldBytes(n)
}

// topicBytes returns what the topic's name adds to it.
func topicBytes(topic string) int { return fieldBytes(len(topic)) }

// fieldBytes is the encoded size of a field with n bytes and a small number.
func fieldBytes(n int) int { return 1 + protowire.SizeBytes(n) }
