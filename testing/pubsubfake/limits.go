package pubsubfake

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The limits of the service, as its documents have them.
const (
	maxPublishMessages = 1000
	maxPublishBytes    = 10_000_000
	maxAttributes      = 100
	maxAttributeKey    = 256
	maxAttributeValue  = 1024
	maxOrderingKey     = 1024
	maxFilter          = 256

	minAckDeadline = 10
	maxAckDeadline = 600

	minRetention     = 10 * time.Minute
	defaultRetention = 7 * 24 * time.Hour
	maxRetention     = 31 * 24 * time.Hour
)

// checkPublish refuses what the service refuses, and returns the size of the
// request in bytes.
func checkPublish(req *pubsubpb.PublishRequest) (int, error) {
	msgs := req.GetMessages()
	switch {
	case len(msgs) == 0:
		return 0, invalid("The request contains no messages: between 1 and %d are needed.", maxPublishMessages)
	case len(msgs) > maxPublishMessages:
		return 0, invalid("Too many messages to publish: %d, at most %d are allowed.", len(msgs), maxPublishMessages)
	}
	size := 1 + protowire.SizeBytes(len(req.GetTopic()))
	for i, m := range msgs {
		if err := checkMessage(i, m); err != nil {
			return 0, err
		}
		if m.GetOrderingKey() != msgs[0].GetOrderingKey() {
			return 0, invalid("All messages of a publish request must have the same ordering key: %q and %q.", msgs[0].GetOrderingKey(), m.GetOrderingKey())
		}
		size += 1 + protowire.SizeBytes(proto.Size(m))
	}
	if size > maxPublishBytes {
		return 0, invalid("The value for request_size is too large. You passed %d in the request, but the maximum value is %d.", size, maxPublishBytes)
	}
	return size, nil
}

func checkMessage(i int, m *pubsubpb.PubsubMessage) error {
	if len(m.GetData()) == 0 && len(m.GetAttributes()) == 0 {
		return invalid("Some messages are empty: message %d needs data or at least one attribute.", i)
	}
	if n := len(m.GetOrderingKey()); n > maxOrderingKey {
		return invalid("The ordering key of message %d is too long: %d bytes, at most %d are allowed.", i, n, maxOrderingKey)
	}
	if n := len(m.GetAttributes()); n > maxAttributes {
		return invalid("Message %d has too many attributes: %d, at most %d are allowed.", i, n, maxAttributes)
	}
	for k, v := range m.GetAttributes() {
		switch {
		case k == "":
			return invalid("Message %d has an attribute with an empty key.", i)
		case len(k) > maxAttributeKey:
			return invalid("An attribute key of message %d is too long: %d bytes, at most %d are allowed.", i, len(k), maxAttributeKey)
		case strings.HasPrefix(k, "goog"):
			return invalid("The attribute key %q of message %d is reserved: it starts with \"goog\".", k, i)
		case len(v) > maxAttributeValue:
			return invalid("The value of attribute %q of message %d is too long: %d bytes, at most %d are allowed.", k, i, len(v), maxAttributeValue)
		}
	}
	return nil
}

func checkRetention(d time.Duration) error {
	if d < minRetention || d > maxRetention {
		return invalid("Invalid message_retention_duration %v: it must be between %v and %v.", d, minRetention, maxRetention)
	}
	return nil
}

// checkName wants projects/P/kind/ID with an id as the service allows it.
func checkName(name, kind string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[1] == "" || parts[2] != kind || !validID(parts[3]) {
		return invalid("Invalid [%s] name: (name=%s)", kind, name)
	}
	return nil
}

func validID(id string) bool {
	if len(id) < 3 || len(id) > 255 || strings.HasPrefix(id, "goog") {
		return false
	}
	for i, c := range []byte(id) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if i == 0 && !letter {
			return false
		}
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("-_.~+%", rune(c)) {
			return false
		}
	}
	return true
}

// shortName is the last part of a full name.
func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// projectOf is the project of a full name.
func projectOf(name string) string {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// namesIn returns the sorted names of a project ("projects/P").
func namesIn[V any](m map[string]V, project string) []string {
	var names []string
	for name := range maps.Keys(m) {
		if strings.HasPrefix(name, project+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// page cuts one page out of sorted names. A token is the first name of its page.
func page(names []string, size int32, token string) (part []string, next string) {
	names = names[sort.SearchStrings(names, token):]
	if size <= 0 {
		size = 100
	}
	if len(names) > int(size) {
		return names[:size], names[size]
	}
	return names, ""
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
