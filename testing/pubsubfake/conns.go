package pubsubfake

import (
	"net"
	"sync"
)

// ConnStats counts the connections of a Server, pipes of Dial included.
type ConnStats struct {
	Open  int `json:"open"`
	Peak  int `json:"peak"`
	Total int `json:"total"`
}

// Connections tells how many connections there are and were.
func (s *Server) Connections() ConnStats {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return s.conns.stats
}

type connCounts struct {
	mu    sync.Mutex
	stats ConnStats
	open  map[*countedConn]struct{}
}

func (c *connCounts) add(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*countedConn]struct{}{}
	}
	c.open[conn] = struct{}{}
	c.stats.Total++
	c.stats.Open = len(c.open)
	c.stats.Peak = max(c.stats.Peak, c.stats.Open)
}

func (c *connCounts) remove(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	c.stats.Open = len(c.open)
}

func (c *connCounts) drop() {
	c.mu.Lock()
	open := make([]*countedConn, 0, len(c.open))
	for conn := range c.open {
		open = append(open, conn)
	}
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close() // the transport reports what it sees
	}
}

type countingListener struct {
	net.Listener
	counts *connCounts
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &countedConn{Conn: c, counts: l.counts}
	l.counts.add(conn)
	return conn, nil
}

type countedConn struct {
	net.Conn
	counts *connCounts
	once   sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.counts.remove(c) })
	return c.Conn.Close()
}
