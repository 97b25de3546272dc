package pubsubfake

// A keyTable has the ordering keys of a subscription that have messages.
//
// A key has at most one batch outstanding: its next messages are handed out
// when all of that batch are acknowledged. If one of the batch comes back, it
// and all behind it are delivered again in order, also those that were
// acknowledged meanwhile (as the service documents it); so an acknowledged one
// is held until those before it are acknowledged too.
type keyTable struct {
	keys  map[string]*orderKey
	queue []*orderKey // ready to be handed out
}

type orderKey struct {
	name    string
	pending entryQueue
	out     []*entry // handed out, in order; acknowledged ones are held
	queued  bool     // in keyTable.queue or delayed
}

// add appends a new message to its key.
func (t *keyTable) add(e *entry) {
	name := e.pb.GetOrderingKey()
	k := t.keys[name]
	if k == nil {
		k = &orderKey{name: name}
		t.keys[name] = k
	}
	e.key = k
	k.pending.push(e)
	if !k.queued && len(k.out) == 0 {
		t.ready(k)
	}
}

// ready queues a key for delivery.
func (t *keyTable) ready(k *orderKey) {
	k.queued = true
	t.queue = append(t.queue, k)
}

// next takes the next key that may be handed out.
func (t *keyTable) next() *orderKey {
	if len(t.queue) == 0 {
		return nil
	}
	k := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	k.queued = false
	return k
}

// settle notes that e is acknowledged (or gone for good); what is in front and
// settled is let go. It tells whether the key may go on.
func (t *keyTable) settle(e *entry) bool {
	k := e.key
	e.held = true
	i := 0
	for i < len(k.out) && k.out[i].held {
		k.out[i].pb = nil
		k.out[i] = nil
		i++
	}
	k.out = k.out[i:]
	if len(k.out) > 0 {
		return false
	}
	k.out = nil
	if k.pending.len() == 0 {
		if !k.queued {
			delete(t.keys, k.name)
		}
		return false
	}
	return !k.queued
}

// rewind cuts the outstanding batch at e and returns what was handed out from
// there on, e included.
func (k *orderKey) rewind(e *entry) []*entry {
	for i := len(k.out) - 1; i >= 0; i-- {
		if k.out[i] == e {
			back := k.out[i:]
			k.out = k.out[:i:i]
			return back
		}
	}
	return nil
}
