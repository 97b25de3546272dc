package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// CloseAll closes every reader of the process at once: what is not acknowledged
// is given back. It is for a program whose job has ended in some other way than
// by the end of its sources. Readers whose clients do not answer are left when
// ctx ends.
func CloseAll(ctx context.Context) error {
	process.Lock()
	var open []interface{ Close() error }
	for m := range process.open {
		if c, ok := m.(interface{ Close() error }); ok {
			open = append(open, c)
		}
	}
	process.Unlock()
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, r := range open {
		wg.Go(func() { errs[i] = r.Close() })
	}
	done := make(chan struct{})
	go func() { // ends with the readers, each of which bounds its own end
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return errors.Join(errs...)
	case <-ctx.Done():
		return fmt.Errorf("closing %d readers: %w", len(open), ctx.Err())
	}
}
