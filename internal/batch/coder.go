package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// chunkVersion is the first byte of an encoded chunk. Chunks stand in the state
// of running jobs: a new layout gets a new number, and the old one stays
// readable.
const chunkVersion = 1

var errShort = errors.New("chunk is cut short")

// coders holds a *sync.Pool of encoders and one of decoders per item type: they
// are costly to make and serve one goroutine at a time.
var coders sync.Map // reflect.Type -> *coderPools

type coderPools struct{ enc, dec sync.Pool }

func poolsOf(t reflect.Type) *coderPools {
	if p, ok := coders.Load(t); ok {
		return p.(*coderPools)
	}
	p := &coderPools{}
	p.enc.New = func() any { return beam.NewElementEncoder(t) }
	p.dec.New = func() any { return beam.NewElementDecoder(t) }
	actual, _ := coders.LoadOrStore(t, p)
	return actual.(*coderPools)
}

// Encode encodes a chunk, its items with Beam's coder for T. A connector wraps
// it, and Decode, in functions that are not generic and registers these as the
// coder of Chunk[T].
func Encode[T any](c Chunk[T]) ([]byte, error) {
	pool := &poolsOf(reflect.TypeFor[T]()).enc
	enc := pool.Get().(beam.ElementEncoder)
	defer pool.Put(enc)
	b := make([]byte, 0, 64+c.Bytes()+32*len(c.Items))
	b = append(b, chunkVersion)
	b = appendString(b, c.Destination)
	b = appendString(b, c.Order)
	b = binary.AppendVarint(b, c.First)
	b = append(b, boolByte(c.Closed))
	b = binary.AppendUvarint(b, uint64(len(c.Items)))
	buf := bytes.NewBuffer(b)
	for i := range c.Items {
		it := &c.Items[i]
		head := binary.AppendVarint(buf.AvailableBuffer(), it.Time)
		buf.Write(binary.AppendUvarint(head, uint64(it.Bytes)))
		if err := enc.Encode(it.Value, buf); err != nil {
			return nil, fmt.Errorf("encoding item %d of a chunk: %w", i, err)
		}
	}
	return buf.Bytes(), nil
}

// Decode decodes what Encode has made.
func Decode[T any](b []byte) (Chunk[T], error) {
	var c Chunk[T]
	r := bytes.NewReader(b)
	if v, err := r.ReadByte(); err != nil || v != chunkVersion {
		return c, fmt.Errorf("decoding chunk: version %d is not known here (%d is)", v, chunkVersion)
	}
	n, err := readHead(r, &c)
	if err != nil {
		return c, fmt.Errorf("decoding chunk: %w", err)
	}
	pool := &poolsOf(reflect.TypeFor[T]()).dec
	dec := pool.Get().(beam.ElementDecoder)
	defer pool.Put(dec)
	c.Items = make([]Item[T], n)
	for i := range c.Items {
		if err := readItem(r, dec, &c.Items[i]); err != nil {
			return c, fmt.Errorf("decoding item %d of a chunk: %w", i, err)
		}
	}
	return c, nil
}

// readHead reads all but the items, of which it returns the number.
func readHead[T any](r *bytes.Reader, c *Chunk[T]) (int, error) {
	var err error
	if c.Destination, err = readString(r); err != nil {
		return 0, err
	}
	if c.Order, err = readString(r); err != nil {
		return 0, err
	}
	if c.First, err = binary.ReadVarint(r); err != nil {
		return 0, err
	}
	closed, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	c.Closed = closed == 1
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, err
	}
	if n > uint64(r.Len()) { // an item takes more than a byte
		return 0, errShort
	}
	return int(n), nil
}

func readItem[T any](r *bytes.Reader, dec beam.ElementDecoder, it *Item[T]) error {
	var err error
	if it.Time, err = binary.ReadVarint(r); err != nil {
		return err
	}
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	it.Bytes = int(n)
	v, err := dec.Decode(r)
	if err != nil {
		return err
	}
	it.Value = v.(T)
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func readString(r *bytes.Reader) (string, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return "", err
	}
	if n > uint64(r.Len()) {
		return "", errShort
	}
	s := make([]byte, n)
	if _, err := r.Read(s); err != nil && n > 0 {
		return "", err
	}
	return string(s), nil
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}
