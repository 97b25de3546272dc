package queue

import (
	"crypto/rand"
	"fmt"
	"sync"
)

// A Registry keeps what has to outlive a bundle, one value for each key. Its
// keys hold the worker, the transform's nonce and the slot, never the
// configuration: two reads of one subscription must not share handles.
type Registry[T comparable] struct {
	mu sync.Mutex
	m  map[string]T
}

// Get is the value under key, made by open where there is none. open runs under
// the registry's lock and must not block.
func (g *Registry[T]) Get(key string, open func() T) T {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok := g.m[key]; ok {
		return v
	}
	if g.m == nil {
		g.m = map[string]T{}
	}
	v := open()
	g.m[key] = v
	return v
}

// Find is the value under key, if there is one.
func (g *Registry[T]) Find(key string) (T, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.m[key]
	return v, ok
}

// Remove forgets v if it still stands under key.
func (g *Registry[T]) Remove(key string, v T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m[key] == v {
		delete(g.m, key)
	}
}

// All is a copy of the values.
func (g *Registry[T]) All() []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]T, 0, len(g.m))
	for _, v := range g.m {
		out = append(out, v)
	}
	return out
}

// NewNonce is a name that no other transform has. It is made at construction
// and travels with the transform.
func NewNonce() string { return rand.Text() }

// ReaderKey names the reader of a slot. The worker is part of it: several
// harnesses can share a process, as two jobs of one program do.
func ReaderKey(worker, nonce string, slot int64) string {
	return fmt.Sprintf("%s/%s/%d", worker, nonce, slot)
}
