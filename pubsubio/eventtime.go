package pubsubio

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// timestampFallbacks counts, for the process, messages whose timestamp
// attribute was missing or could not be read.
var timestampFallbacks atomic.Int64

// Attribute times outside of these years are taken for mistakes: Beam's own
// range ends far beyond them, but a watermark never comes back from there.
var (
	leastEventTime = time.Unix(0, 0).UTC()
	maxFutureSkew  = 24 * time.Hour
)

// leastMillis is 3 March 1973. A smaller number is one of seconds by mistake,
// whose time in 1970 would hold the watermark back.
const leastMillis = 100_000_000_000

// eventTime is the message's event time: its timestamp attribute where the
// transform has one, else its publish time. A message without a usable
// attribute is not worth losing: it takes its publish time and is counted.
func (in *inlet) eventTime(m *Message) time.Time {
	if in.cfg.TimestampAttribute == "" {
		return m.PublishTime
	}
	t, err := parseTimestamp(m.Attributes[in.cfg.TimestampAttribute])
	if err != nil || t.Before(leastEventTime) || t.After(time.Now().Add(maxFutureSkew)) {
		timestampFallbacks.Add(1)
		return m.PublishTime
	}
	return t
}

// parseTimestamp reads milliseconds since 1970 or RFC 3339, as Beam Java's
// PubsubIO does.
func parseTimestamp(s string) (time.Time, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms < leastMillis {
			return time.Time{}, fmt.Errorf("timestamp %q is not milliseconds since 1970: it may be seconds", s)
		}
		return time.UnixMilli(ms).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("timestamp %q is neither milliseconds since 1970 nor RFC 3339", s)
	}
	return t.UTC(), nil
}
