//go:build integration

package pubsub_test

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A proxy is the way to a broker, which can be cut and made slow.
type proxy struct {
	target string
	l      net.Listener
	delay  atomic.Int64
	ended  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // both ends of each
	most  int
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target, l: l, conns: map[net.Conn]struct{}{}}
	p.ended.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.l.Addr().String() }

func (p *proxy) close() {
	_ = p.l.Close()
	p.DropConnections()
	p.ended.Wait()
}

func (p *proxy) accept() {
	for {
		near, err := p.l.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns[near], p.conns[far] = struct{}{}, struct{}{}
		p.most = max(p.most, len(p.conns)/2)
		p.mu.Unlock()
		p.ended.Go(func() { p.carry(near, far, false) })
		p.ended.Go(func() { p.carry(far, near, true) })
	}
}

// A parcel is what was read at once, and when it is due at the other end.
type parcel struct {
	data []byte
	due  time.Time
}

// carry copies one direction until either end is closed, and closes both.
func (p *proxy) carry(from, to net.Conn, answers bool) {
	parcels := make(chan parcel, 1000)
	p.ended.Go(func() {
		for x := range parcels {
			time.Sleep(time.Until(x.due))
			if _, err := to.Write(x.data); err != nil {
				_ = from.Close() // ends the reading, which ends this
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
		_, _ = from.Close(), to.Close()
	})
	defer close(parcels)
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if n > 0 {
			x := parcel{data: data[:n], due: time.Now()}
			if answers {
				x.due = x.due.Add(time.Duration(p.delay.Load()))
			}
			parcels <- x
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) DropConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) Slow(d time.Duration) (end func()) {
	p.delay.Store(int64(d))
	return func() { p.delay.Store(0) }
}

func (p *proxy) mostOpen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}
