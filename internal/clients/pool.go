// Package clients keeps a process's broker clients: opened once, shared by all
// transforms, threads and bundles that publish to the same target, and closed
// when nobody has used them for a while.
//
// Beam never calls a DoFn's Teardown, so neither a DoFn nor a bundle can own a
// client; the process does, through a package-level Pool of the connector.
package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Defaults of a Pool.
const (
	// DefaultIdle is how long an unused client stays open.
	DefaultIdle = 60 * time.Second

	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// A Key names one client of a process.
type Key struct {
	// Target is what the client is connected to: address and everything of the
	// configuration that makes two clients different.
	Target string
	// Version is the version of what the target's credentials resolved to. A
	// client of another version serves new users; the old one is closed as soon
	// as its last user has released it.
	Version string
	// Index counts the clients of one target, from 0. Callers bound it, and so
	// bound the connections of the process: two callers with different bounds
	// share the lower indexes.
	Index int
}

// slot is a Key without the version: one place for one connection.
type slot struct {
	target string
	index  int
}

// An OpenError is returned by Get while a client cannot be opened. What to do:
// try again after Wait; until then Get answers from memory, so that a broker
// that is down is not asked by every batch.
type OpenError struct {
	Target string
	Wait   time.Duration
	Err    error
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("opening client for %s: %v", e.Target, e.Err)
}

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// A Pool holds the clients of one kind. Its methods may be called from any
// goroutine. It runs no goroutine of its own; an idle client is watched by a
// timer, which is gone when the client is.
type Pool[C any] struct {
	idle  time.Duration
	close func(C) error

	mu      sync.Mutex
	entries map[Key]*entry[C]
	current map[slot]string // the version that is handed out
	broken  map[Key]*failure
	closing sync.WaitGroup
}

type entry[C any] struct {
	key    Key
	ready  chan struct{} // closed when client or err is set
	client C
	err    error
	refs   int
	timer  *time.Timer // runs while refs is 0
}

type failure struct {
	err   error
	until time.Time
	wait  time.Duration
}

// NewPool makes an empty pool. A client unused for idle is closed with
// closeFn, whose error is dropped: nobody is left to act on it.
func NewPool[C any](idle time.Duration, closeFn func(C) error) *Pool[C] {
	return &Pool[C]{
		idle: idle, close: closeFn,
		entries: map[Key]*entry[C]{}, current: map[slot]string{}, broken: map[Key]*failure{},
	}
}

// A Lease is one use of a shared client.
type Lease[C any] struct {
	// Client may be used by several holders at the same time.
	Client C

	once    sync.Once
	release func()
}

// Release ends the use. Calling it again does nothing.
func (l *Lease[C]) Release() { l.once.Do(l.release) }

// Get returns the client of key, opened by open when there is none. Callers
// that ask for a client that is being opened wait for it, no longer than their
// context. A failed open is remembered for a short time that grows with each
// failure in a row (100 ms to 5 s), and is an *OpenError.
func (p *Pool[C]) Get(ctx context.Context, key Key, open func(context.Context) (C, error)) (*Lease[C], error) {
	for {
		e, mine, err := p.enter(key)
		if err != nil {
			return nil, err
		}
		if mine {
			p.open(ctx, e, open)
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			p.release(e)
			return nil, fmt.Errorf("waiting for client of %s: %w", key.Target, ctx.Err())
		}
		if e.err == nil {
			return &Lease[C]{Client: e.client, release: func() { p.release(e) }}, nil
		}
		if ctx.Err() == nil && isContext(e.err) && !mine {
			continue // the opener gave up, not the broker: try it ourselves
		}
		return nil, e.err
	}
}

// enter takes a reference to key's entry; mine tells that the caller must open
// its client.
func (p *Pool[C]) enter(key Key) (e *entry[C], mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.supersede(key)
	if e = p.entries[key]; e != nil {
		e.refs++
		if e.timer != nil {
			e.timer.Stop()
			e.timer = nil
		}
		return e, false, nil
	}
	now := time.Now()
	p.forget(now)
	if f := p.broken[key]; f != nil && now.Before(f.until) {
		return nil, false, &OpenError{Target: key.Target, Wait: f.until.Sub(now), Err: f.err}
	}
	e = &entry[C]{key: key, ready: make(chan struct{}), refs: 1}
	p.entries[key] = e
	return e, true, nil
}

// supersede makes key's version the current one of its slot and closes what
// the slot's older clients leave unused.
func (p *Pool[C]) supersede(key Key) {
	s := slot{key.Target, key.Index}
	old, known := p.current[s]
	if known && old == key.Version {
		return
	}
	p.current[s] = key.Version
	if e := p.entries[Key{key.Target, old, key.Index}]; known && e != nil && e.refs == 0 {
		p.remove(e)
	}
}

// forget drops failures that are too old to say anything about the broker.
func (p *Pool[C]) forget(now time.Time) {
	for k, f := range p.broken {
		if now.Sub(f.until) > p.idle {
			delete(p.broken, k)
		}
	}
}

// open opens e's client and wakes all who wait for it.
func (p *Pool[C]) open(ctx context.Context, e *entry[C], open func(context.Context) (C, error)) {
	client, err := open(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(e.ready)
	if err == nil {
		e.client = client
		delete(p.broken, e.key)
		return
	}
	delete(p.entries, e.key)
	if ctx.Err() != nil {
		e.err = fmt.Errorf("opening client for %s: %w", e.key.Target, ctx.Err())
		return
	}
	wait := firstRetry
	if f := p.broken[e.key]; f != nil {
		wait = min(2*f.wait, lastRetry)
	}
	p.broken[e.key] = &failure{err: err, until: time.Now().Add(wait), wait: wait}
	e.err = &OpenError{Target: e.key.Target, Wait: wait, Err: err}
}

// release gives back one reference. The last one starts the idle timer, or
// closes the client at once where its version is not the current one.
func (p *Pool[C]) release(e *entry[C]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.refs--
	if e.refs > 0 || p.entries[e.key] != e {
		return
	}
	if p.current[slot{e.key.Target, e.key.Index}] != e.key.Version {
		p.remove(e)
		return
	}
	e.timer = time.AfterFunc(p.idle, func() { p.expire(e) })
}

// expire closes e unless it was taken again while the timer fired.
func (p *Pool[C]) expire(e *entry[C]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.refs == 0 && e.timer != nil && p.entries[e.key] == e {
		p.remove(e)
	}
}

// remove takes e out and closes its client, outside the lock and its caller.
func (p *Pool[C]) remove(e *entry[C]) {
	delete(p.entries, e.key)
	if s := (slot{e.key.Target, e.key.Index}); p.current[s] == e.key.Version {
		delete(p.current, s)
	}
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	p.closing.Go(func() { _ = p.close(e.client) })
}

// Len returns the number of clients that are open or being opened.
func (p *Pool[C]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// CloseIdle closes the clients that nobody uses, without waiting for their
// idle time, and returns when they are closed. Programs that are about to end,
// and tests, call it.
func (p *Pool[C]) CloseIdle() {
	p.mu.Lock()
	for _, e := range p.entries {
		if e.refs == 0 {
			p.remove(e)
		}
	}
	p.mu.Unlock()
	p.closing.Wait()
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
