package conformance

import (
	"bytes"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"

	"github.com/beam-brokers/beam-brokers/internal/race"
)

// odd are messages of which some part is easily lost.
func odd() []Message {
	attr := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	return []Message{
		{Body: []byte("plain")},
		{Body: []byte("with attributes"), Attributes: attr("a", "1", "b", "2")},
		{Attributes: attr("only", "attributes")},
		{Body: []byte("empty value"), Attributes: attr("empty", "")},
		{Body: []byte{0, 1, 0xff, 0xfe, 0x80, 0}, Attributes: attr("binary", "yes")},
		{Body: []byte("žluťoučký 🐎"), Attributes: attr("klíč", "hodnota 🐎", "with space", " x ", "dots.and-dashes_", "=&;,")},
		{Body: []byte("\n\r\t \x00"), Attributes: attr("blank", " \t")},
		{Body: bytes.Repeat([]byte{0xa5}, 200_000), Attributes: attr("long", strings.Repeat("v", 1000))},
		{Body: []byte("twice"), Attributes: attr("n", "1")},
		{Body: []byte("twice"), Attributes: attr("n", "1")},
	}
}

func checkRoundTrip(r *rig)    { r.relay(odd()) }
func checkEmptyMessage(r *rig) { r.relay([]Message{{}}) }

// relay moves messages through source and sink, and compares both ends.
func (r *rig) relay(msgs []Message) {
	r.Helper()
	from, to := r.destination(DestinationOptions{}), r.destination(DestinationOptions{})
	r.publish(from, msgs...)
	rec := newRecord()
	j := r.startRelay(from, to, rec)
	j.await(len(msgs))
	r.until("outcomes", func() bool { return j.over() || rec.tally().outcomes >= len(msgs) })
	j.drain()
	r.exactly(msgs, rec.messages(), 0)
	r.exactly(msgs, r.stored(to, len(msgs)), 0)
	r.left(from, 0)
}

func (r *rig) startRelay(from, to Destination, rec *record) *job {
	return r.start(rec, func(s beam.Scope) {
		in, _ := from.Read(s, ReadOptions{})
		beam.ParDo0(s, &keepFn{Key: rec.key}, in)
		beam.ParDo0(s, &keepOutcomeFn{Key: rec.key}, to.Write(s, in, WriteOptions{}))
	})
}

func checkRedelivery(r *rig) {
	race.SkipCancel(r.T)
	d := r.destination(DestinationOptions{})
	msgs := numbered(0, 50)
	r.publish(d, msgs...)
	rec := newRecord()
	opened := make(chan struct{})
	entered := rec.gate(opened, errOnPurpose)
	j := r.read(d, rec, ReadOptions{})
	r.Cleanup(func() { close(opened) })
	r.until("a bundle", func() bool { return len(entered) > 0 })
	j.cancel()
	r.exactly(msgs, r.readAll(d, nil, msgs), 0)
}

func checkAckAfterCommit(r *rig) {
	d := r.destination(DestinationOptions{})
	msgs := numbered(0, 50)
	r.publish(d, msgs...)
	rec := newRecord()
	opened := make(chan struct{})
	entered := rec.gate(opened, errOnPurpose)
	j := r.read(d, rec, ReadOptions{})
	j.opened = opened
	r.until("a bundle", func() bool { return len(entered) > 0 })
	time.Sleep(wrongAck)
	if c, ok := d.(Counter); ok {
		if n, _ := c.Counts(); n != len(msgs) {
			r.Errorf("%d of %d messages are acknowledged while their bundle is open", len(msgs)-n, len(msgs))
		}
	}
	j.open()
	j.failed()
	if n := rec.tally().got; n != 0 {
		r.Fatalf("%d messages are in bundles that have ended well", n)
	}
	// Where the broker does not count, this tells: what was acknowledged is gone.
	r.exactly(msgs, r.readAll(d, nil, msgs), 0)
}

func checkFailingBundle(r *rig) {
	d := r.destination(DestinationOptions{})
	msgs := numbered(0, 150)
	good, bad := msgs[:50], msgs[50:]
	rec := newRecord()
	rec.element = func(m Message) error {
		if bytes.Compare(m.Body, bad[0].Body) >= 0 && bytes.HasSuffix(m.Body, []byte("7")) {
			return errOnPurpose // in the midst of a bundle
		}
		return nil
	}
	r.publish(d, good...)
	j := r.read(d, rec, ReadOptions{})
	j.await(len(good))
	again := len(good)
	if c, ok := d.(Counter); ok {
		r.until("acknowledgements", func() bool { n, _ := c.Counts(); return n == 0 })
		again = 0
	}
	r.publish(d, bad...)
	j.failed()
	r.exactly(msgs, r.readAll(d, rec.messages(), msgs), again)
}

func checkRestart(r *rig) {
	race.SkipCancel(r.T)
	const limit = 100
	d := r.destination(DestinationOptions{})
	msgs := numbered(0, 600)
	r.publish(d, msgs...)
	rec := newRecord()
	rec.element = slowly
	var stand atomic.Bool
	opened, entered := make(chan struct{}), make(chan int, 100)
	rec.finish = func(n int) error {
		if stand.Load() {
			entered <- n
			<-opened
		}
		return nil
	}
	j := r.read(d, rec, ReadOptions{MaxOutstanding: limit})
	j.opened = opened
	j.await(200)
	stand.Store(true)
	r.until("a bundle that is emitted and not committed", func() bool { return len(entered) > 0 })
	time.Sleep(wrongAck)
	j.cancel()
	// A bundle that stands still holds a lock that all workers of the SDK in a
	// process share (harness.monitoring); it is cancelled and may go.
	j.open()
	before := rec.messages()
	if len(before) == len(msgs) {
		r.Fatal("the job was through before it was cancelled")
	}
	r.exactly(msgs, r.readAll(d, before, msgs), limit)
}

// slowly makes a job last long enough to be disturbed.
func slowly(Message) error {
	time.Sleep(time.Millisecond)
	return nil
}

func checkDrain(r *rig) {
	d := r.destination(DestinationOptions{})
	msgs := numbered(0, 600)
	r.publish(d, msgs...)
	rec := newRecord()
	rec.element = slowly
	j := r.read(d, rec, ReadOptions{MaxOutstanding: 100})
	j.await(150)
	j.drain()
	before := rec.messages()
	if len(before) == len(msgs) {
		r.Fatal("the job was through before it was drained")
	}
	r.left(d, len(msgs)-len(before))
	r.exactly(msgs, r.readAll(d, before, msgs), 0)
	r.left(d, 0)
}

func checkIdleWatermark(r *rig) {
	d := r.destination(DestinationOptions{})
	msgs := numbered(0, 20)
	rec := newRecord()
	r.publish(d, msgs...)
	j := r.start(rec, func(s beam.Scope) {
		in, _ := d.Read(s, ReadOptions{})
		keyed := beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.ParDo(s, keyOf, in))
		beam.ParDo0(s, &keepGroupFn{Key: rec.key}, beam.GroupByKey(s, keyed))
	})
	r.until("the windows", func() bool { return j.over() || rec.tally().grouped >= len(msgs) })
	j.drain()
	if n := rec.tally().grouped; n != len(msgs) {
		r.Errorf("%d messages in windows, want %d", n, len(msgs))
	}
}

func checkPoison(r *rig) {
	d := r.destination(DestinationOptions{})
	dec := ability[Decoder](r, d)
	var good []Message
	bad := []Message{dec.Undecodable(), dec.Undecodable()}
	for i := range 20 {
		good = append(good, dec.Decodable(i))
	}
	r.publish(d, good[:7]...)
	r.publish(d, bad[0])
	r.publish(d, good[7:]...)
	r.publish(d, bad[1])
	rec := newRecord()
	j := r.read(d, rec, ReadOptions{Decode: true})
	j.await(len(good))
	r.until("failures", func() bool { return j.over() || rec.tally().failures >= len(bad) })
	j.drain()
	r.exactly(good, rec.messages(), 0)
	if len(rec.failures) != len(bad) {
		r.Errorf("%d failures, want %d", len(rec.failures), len(bad))
	}
	for _, f := range rec.failures {
		if !bytes.Equal(f.Body, bad[0].Body) || f.Reason == "" {
			r.Errorf("failure %q with reason %q, want the raw payload %q", f.Body, f.Reason, bad[0].Body)
		}
	}
	r.left(d, 0)
}

func checkOrderOnRead(r *rig) {
	d := r.destination(DestinationOptions{Ordered: true})
	msgs := keyed(numbered(0, 120))
	r.publish(d, msgs...)
	rec := newRecord()
	j := r.read(d, rec, ReadOptions{})
	j.await(len(msgs))
	j.drain()
	r.exactly(msgs, rec.messages(), 0)
	r.ordered(rec.messages())
}

// keyed spreads messages over keys.
func keyed(msgs []Message) []Message {
	for i := range msgs {
		msgs[i].Key = "key-" + string(rune('a'+i%4))
	}
	return msgs
}

// ordered checks the order of each key, by the numbers of the bodies.
func (r *rig) ordered(msgs []Message) {
	r.Helper()
	last := map[string][]byte{}
	for _, m := range msgs {
		if bytes.Compare(m.Body, last[m.Key]) <= 0 {
			r.Errorf("key %s: %s after %s", m.Key, m.Body, last[m.Key])
		}
		last[m.Key] = m.Body
	}
}

func checkOpenDuplicates(r *rig) {
	d := r.destination(DestinationOptions{})
	again := ability[Redeliverer](r, d)
	msgs := numbered(0, 50)
	r.publish(d, msgs...)
	rec := newRecord()
	opened := make(chan struct{})
	entered := rec.gate(opened, nil)
	j := r.read(d, rec, ReadOptions{})
	j.opened = opened
	r.until("a bundle", func() bool { return len(entered) > 0 })
	if n := again.Redeliver(); n == 0 {
		r.Error("nothing was delivered again")
	}
	time.Sleep(wrongAck) // the second deliveries arrive
	j.open()
	j.await(len(msgs))
	j.drain()
	r.exactly(msgs, rec.messages(), 0)
	r.left(d, 0)
}
