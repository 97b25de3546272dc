package pubsubio

import (
	"strings"
	"time"
)

// A ReadOption changes a Read. Options only store; Read checks them all
// together and reports every mistake at once.
type ReadOption interface{ applyRead(*readConfig) }

// A WriteOption changes a Write.
type WriteOption interface{ applyWrite(*writeConfig) }

// An Option fits both directions.
type Option interface {
	ReadOption
	WriteOption
}

type readOption struct {
	name  string
	apply func(*readConfig)
}

func (o readOption) applyRead(c *readConfig) { c.give(o.name); o.apply(c) }

type writeOption struct {
	name  string
	apply func(*writeConfig)
}

func (o writeOption) applyWrite(c *writeConfig) { c.give(o.name); o.apply(c) }

type option struct {
	readOption
	writeOption
}

func both(name string, r func(*readConfig), w func(*writeConfig)) Option {
	return option{readOption{name, r}, writeOption{name, w}}
}

// MaxWorkers sets on read the number of reader groups, which is also the number
// of workers that can read at once (default 1), and on write the number of
// shards that publish (default 0: unbounded).
func MaxWorkers(n int) Option {
	return both("maxWorkers",
		func(c *readConfig) { c.MaxWorkers = n },
		func(c *writeConfig) { c.MaxWorkers = n })
}

// ClientsPerWorker sets how many connections a worker process holds, shared by
// all its threads and bundles. Default 1: the client multiplexes. More help
// where one connection is the limit, some 10 MB/s of the real service.
func ClientsPerWorker(n int) Option {
	return both("clientsPerWorker",
		func(c *readConfig) { c.ClientsPerWorker = n },
		func(c *writeConfig) { c.ClientsPerWorker = n })
}

// BatchSize sets on read the most payload bytes of a bundle, which is also the
// most that is outstanding unless MaxOutstandingBytes says otherwise (default
// 64 MiB), and on write the most bytes of a publish request (default and most:
// 10,000,000, the service's limit).
func BatchSize(bytes int64) Option {
	return both("batchSize",
		func(c *readConfig) { c.BatchSize = bytes },
		func(c *writeConfig) { c.BatchSize = bytes })
}

// BatchCount sets on read the most messages of a bundle (default: no limit), and
// on write the most messages of a publish request (default 1000 in bundle
// batching, 50 in exact; 1000 is the service's limit).
func BatchCount(n int) Option {
	return both("batchCount",
		func(c *readConfig) { c.BatchCount = n },
		func(c *writeConfig) { c.BatchCount = n })
}

// MaxOutstandingMessages bounds, per process and transform, the messages in
// hand: on read those buffered, prefetched or emitted and not yet committed
// (default BatchCount, else 10,000), on write those handed to the client and
// not yet answered (default 10,000). On read the rate is at most this divided
// by the commit interval.
func MaxOutstandingMessages(n int) Option {
	return both("maxOutstandingMessages",
		func(c *readConfig) { c.MaxOutstandingMessages = n },
		func(c *writeConfig) { c.MaxOutstandingMessages = n })
}

// MaxOutstandingBytes is MaxOutstandingMessages by bytes: default BatchSize on
// read, 64 MiB on write.
func MaxOutstandingBytes(bytes int64) Option {
	return both("maxOutstandingBytes",
		func(c *readConfig) { c.MaxOutstandingBytes = bytes },
		func(c *writeConfig) { c.MaxOutstandingBytes = bytes })
}

// TimestampAttribute names the attribute that carries the event time, as
// milliseconds since 1970 or RFC 3339. On read it becomes the element's
// timestamp in place of the publish time, on write it is set from the element's
// timestamp. Default: none.
func TimestampAttribute(name string) Option {
	return both("timestampAttribute",
		func(c *readConfig) { c.TimestampAttribute = name },
		func(c *writeConfig) { c.TimestampAttribute = name })
}

// IDAttribute names the attribute that carries a message's own id. On read,
// messages whose id this worker has lately seen are dropped and acknowledged;
// on write it is set from MessageID where the message does not carry it, and is
// the ID of the outcome. Default: none.
func IDAttribute(name string) Option {
	return both("idAttribute",
		func(c *readConfig) { c.IDAttribute = name },
		func(c *writeConfig) { c.IDAttribute = name })
}

// Runner names the runner the pipeline is for, which decides when a bundle
// counts as committed. Default: the value of the runner flag. Give it where the
// program chooses the runner by other means.
func Runner(name string) Option {
	name = runnerName(name)
	return both("runner",
		func(c *readConfig) { c.Runner = name },
		func(c *writeConfig) { c.Runner = name })
}

// runnerName brings the usual spellings to one: "PrismRunner", "prism".
func runnerName(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), "runner")
}

func readDuration(name string, field func(*readConfig) *time.Duration, d time.Duration) ReadOption {
	return readOption{name, func(c *readConfig) { *field(c) = d }}
}
