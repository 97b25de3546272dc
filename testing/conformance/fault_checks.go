package conformance

import (
	"context"
	"runtime"
	"time"
)

func checkConnectionDrop(r *rig) {
	d := r.destination(DestinationOptions{})
	drop := ability[Dropper](r, d)
	r.disturb(d, drop.DropConnections)
}

func checkBrokerRestart(r *rig) {
	d := r.destination(DestinationOptions{})
	broker := ability[Restarter](r, d)
	r.disturb(d, func() {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if err := broker.RestartBroker(ctx); err != nil {
			r.Fatal(err)
		}
	})
}

// disturb reads while something is done to the broker, twice: once under load
// and once when there is nothing to read.
func (r *rig) disturb(d Destination, fault func()) {
	r.Helper()
	const limit = 50
	msgs := numbered(0, 400)
	r.publish(d, msgs[:200]...)
	rec := newRecord()
	rec.element = slowly
	j := r.read(d, rec, ReadOptions{MaxOutstanding: limit})
	j.await(50)
	fault()
	j.until("what was there", func() bool {
		missing, _ := compare(msgs[:200], rec.messages())
		return missing == 0 || j.over()
	})
	fault()
	r.publish(d, msgs[200:]...)
	j.until("what came later", func() bool {
		missing, _ := compare(msgs, rec.messages())
		return missing == 0 || j.over()
	})
	j.drain()
	// An acknowledgement that the fault has swallowed makes a duplicate.
	r.exactly(msgs, rec.messages(), 2*limit)
	r.left(d, 0)
}

func checkSlowBroker(r *rig) {
	from, to := r.destination(DestinationOptions{}), r.destination(DestinationOptions{})
	msgs := numbered(0, 200)
	r.publish(from, msgs...)
	defer ability[Slower](r, from).Slow(150 * time.Millisecond)()
	rec := newRecord()
	j := r.startRelay(from, to, rec)
	j.await(len(msgs))
	j.drain()
	r.exactly(msgs, rec.messages(), 0)
	r.exactly(msgs, r.stored(to, len(msgs)), 0)
	r.left(from, 0)
}

func checkBackPressure(r *rig) {
	const limit = 50
	d := r.destination(DestinationOptions{})
	counter := ability[Counter](r, d)
	msgs := numbered(0, 500)
	r.publish(d, msgs...)
	rec := newRecord()
	opened := make(chan struct{})
	entered := rec.gate(opened, nil)
	j := r.read(d, rec, ReadOptions{MaxOutstanding: limit})
	j.opened = opened
	r.until("a bundle", func() bool { return len(entered) > 0 })
	time.Sleep(wrongAck) // a reader without a bound would go on receiving
	j.open()
	j.await(len(msgs))
	j.drain()
	if _, peak := counter.Counts(); peak > limit || peak == 0 {
		r.Errorf("%d messages were received and unsettled, the limit is %d", peak, limit)
	}
	r.exactly(msgs, rec.messages(), 0)
}

func checkCleanClose(r *rig) {
	// What is left of a job must not grow with the number of jobs.
	const jobs, some = 3, 5
	from, to := r.destination(DestinationOptions{}), r.destination(DestinationOptions{})
	connections := ability[ConnectionCounter](r, from)
	once := func() {
		msgs := numbered(0, 20)
		r.publish(from, msgs...)
		rec := newRecord()
		j := r.startRelay(from, to, rec)
		j.await(len(msgs))
		j.drain()
	}
	once() // opens what the process shares
	before := settledGoroutines()
	for range jobs {
		once()
	}
	if now := settledGoroutines(); now > before+some {
		r.Errorf("%d goroutines after one job, %d after %d", before, now, jobs+1)
	}
	if peak, allowed := connections.Connections(); peak > allowed || peak == 0 {
		r.Errorf("%d connections at once, allowed are %d", peak, allowed)
	}
}

// settledGoroutines counts goroutines once no more are ending.
func settledGoroutines() int {
	n, same := runtime.NumGoroutine(), 0
	for range 200 {
		time.Sleep(10 * time.Millisecond)
		now := runtime.NumGoroutine()
		if same++; now < n {
			same = 0
		}
		if n = now; same >= 20 {
			break
		}
	}
	return n
}
