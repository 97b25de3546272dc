package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/pubsubio"
)

func init() {
	register.DoFn1x1[pubsubio.Message, error](&writeFn{})
	register.Function1x1(undecodable)
}

// undecodable ends the job: its message stays in the subscription.
func undecodable(f pubsubio.FailedMessage) error {
	return fmt.Errorf("decoding message %q: %s (schemaMode=raw or basic takes it as it is)", f.Message.MessageID, f.Reason)
}

// totals count what has been written, per job; the pipeline runs in this
// process unless another runner is asked for.
type totals struct{ messages, files atomic.Int64 }

var jobs sync.Map // job name -> *totals

func totalsOf(job string) *totals {
	t, _ := jobs.LoadOrStore(job, &totals{})
	return t.(*totals)
}

// writeFn writes the messages of each bundle to a file of its own. The source
// makes a bundle of each batch; one without messages makes no file.
type writeFn struct {
	Job, Dir     string
	SchemaMode   pubsubio.SchemaMode
	MetadataMode pubsubio.MetadataMode

	file *os.File
	buf  *bufio.Writer
	n    int64
}

// temporary marks files that are not complete.
const temporary = ".part"

// StartBundle removes what a failed bundle has left.
func (f *writeFn) StartBundle() {
	if f.file != nil {
		_ = f.file.Close() // it is thrown away
		_ = os.Remove(f.file.Name())
	}
	f.file, f.n = nil, 0
}

// ProcessElement adds a line.
func (f *writeFn) ProcessElement(m pubsubio.Message) error {
	if f.file == nil {
		name := fmt.Sprintf("%s-%s.ndjson", time.Now().UTC().Format("20060102T150405.000Z"), strings.ToLower(rand.Text()[:8]))
		file, err := os.OpenFile(filepath.Join(f.Dir, "."+name+temporary), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err != nil {
			return fmt.Errorf("creating file: %w", err)
		}
		f.file, f.buf = file, bufio.NewWriterSize(file, 1<<20)
	}
	row, err := pubsubio.Row(m, f.SchemaMode, f.MetadataMode)
	if err != nil {
		return fmt.Errorf("writing message %q as JSON: %w", m.MessageID, err)
	}
	f.n++
	if _, err := f.buf.Write(append(row, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", f.file.Name(), err)
	}
	return nil
}

// FinishBundle makes the file durable and gives it its name. Only after that
// does the runner commit the bundle, and the source acknowledge.
func (f *writeFn) FinishBundle() error {
	if f.file == nil {
		return nil
	}
	part := f.file.Name()
	err := errors.Join(f.buf.Flush(), f.file.Sync(), f.file.Close())
	f.file = nil
	if err == nil {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(part), "."), temporary)
		err = os.Rename(part, filepath.Join(f.Dir, name))
	}
	if err == nil {
		err = syncDir(f.Dir)
	}
	if err != nil {
		return fmt.Errorf("completing %s: %w", part, err)
	}
	t := totalsOf(f.Job)
	t.messages.Add(f.n)
	t.files.Add(1)
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
