package queue

// A fifo holds the entries that wait to be emitted. It keeps its memory and
// forgets what was taken out: a long backlog must not hold messages that were
// acknowledged long ago.
type fifo[M any] struct {
	a    []*entry[M]
	head int
}

func (f *fifo[M]) len() int { return len(f.a) - f.head }

// all is what is inside, in order.
func (f *fifo[M]) all() []*entry[M] { return f.a[f.head:] }

func (f *fifo[M]) push(e *entry[M]) {
	if len(f.a) == cap(f.a) && f.head > len(f.a)/2 {
		n := copy(f.a, f.a[f.head:])
		clear(f.a[n:])
		f.a, f.head = f.a[:n], 0
	}
	f.a = append(f.a, e)
}

// pop takes out the first one, nil if there is none.
func (f *fifo[M]) pop() *entry[M] {
	if f.head == len(f.a) {
		f.a, f.head = f.a[:0], 0
		return nil
	}
	e := f.a[f.head]
	f.a[f.head] = nil
	f.head++
	return e
}

// unpop puts es back to the front.
func (f *fifo[M]) unpop(es []*entry[M]) {
	if f.head < len(es) {
		a := make([]*entry[M], len(es)+f.len(), 2*(len(es)+f.len()))
		copy(a[len(es):], f.all())
		f.a, f.head = a, len(es)
	}
	f.head -= len(es)
	copy(f.a[f.head:], es)
}

func (f *fifo[M]) clear() {
	clear(f.a)
	f.a, f.head = f.a[:0], 0
}
