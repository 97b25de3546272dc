package pubsubfake

import "time"

// An Option changes how a Server behaves.
type Option func(*config)

type config struct {
	clock          Clock
	hook           func(Event)
	noHistory      bool
	noFlowControl  bool
	pullWait       time.Duration
	streamMessages int
	streamBytes    int
	streamAge      time.Duration
	requestLog     int
}

func defaults() config {
	return config{
		clock:          systemClock{},
		pullWait:       5 * time.Second,
		streamMessages: 1000,
		streamBytes:    4 << 20,
		requestLog:     1 << 16,
	}
}

// WithClock sets the clock of publish times, leases, backoff and retention.
// Default: the time package.
func WithClock(c Clock) Option { return func(o *config) { o.clock = c } }

// WithEventHook calls f for each event, in the order in which they happen. The
// call is made with locks held: f must be quick and must not call the Server.
// Default: none. See also Server.OnEvent.
func WithEventHook(f func(Event)) Option { return func(o *config) { o.hook = f } }

// WithoutHistory lets go of messages that every subscription has acknowledged
// and that nothing (retained acked messages, topic retention, a snapshot) keeps
// alive. Published then returns only what is still kept. Use it for long or
// large runs. Default: every message is kept until Close.
func WithoutHistory() Option { return func(o *config) { o.noHistory = true } }

// WithoutFlowControl makes streams ignore max_outstanding_messages and
// max_outstanding_bytes, as the official emulator does. Default: honoured.
func WithoutFlowControl() Option { return func(o *config) { o.noFlowControl = true } }

// WithPullWait sets how long a Pull on an empty subscription waits before it
// answers with no message. Default: 5 s.
func WithPullWait(d time.Duration) Option { return func(o *config) { o.pullWait = d } }

// WithStreamBatch bounds one response of a stream by messages and by bytes (the
// message that passes the bound is still sent). Defaults: 1000 and 4 MiB.
func WithStreamBatch(messages, bytes int) Option {
	return func(o *config) { o.streamMessages, o.streamBytes = messages, bytes }
}

// WithMaxStreamAge ends each stream with UNAVAILABLE after d, as the real
// service does after about half an hour. Default: streams live on.
func WithMaxStreamAge(d time.Duration) Option { return func(o *config) { o.streamAge = d } }

// WithRequestLog bounds how many publish requests TopicStats lists for each
// topic; later ones are counted only. 0 lists none. Default: 65536.
func WithRequestLog(n int) Option { return func(o *config) { o.requestLog = n } }
