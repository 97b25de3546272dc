package queue

import "time"

// A memory remembers the keys of acknowledged messages for a while.
type memory struct {
	size  int
	keep  time.Duration
	at    map[string]time.Time
	order []string // oldest first
}

func newMemory(size int, keep time.Duration) *memory {
	if keep <= 0 {
		keep = 10 * time.Minute
	}
	return &memory{size: size, keep: keep, at: map[string]time.Time{}}
}

func (m *memory) add(key string, now time.Time) {
	if m.size == 0 || key == "" {
		return
	}
	if _, ok := m.at[key]; !ok {
		m.order = append(m.order, key)
	}
	m.at[key] = now
	for len(m.order) > 0 && (len(m.order) > m.size || now.Sub(m.at[m.order[0]]) > m.keep) {
		delete(m.at, m.order[0])
		m.order = m.order[1:]
	}
}

func (m *memory) has(key string, now time.Time) bool {
	at, ok := m.at[key]
	return ok && now.Sub(at) <= m.keep
}
