package batch

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"pgregory.net/rapid"
)

var t0 = time.Unix(1_700_000_000, 0)

func item(i int) Item[string] { return Item[string]{Value: fmt.Sprint(i), Time: int64(i), Bytes: 1} }

func chunkOf(dest string, first time.Time, from, n int) Chunk[string] {
	c := Chunk[string]{Destination: dest, First: first.UnixNano()}
	for i := range n {
		c.Items = append(c.Items, item(from+i))
	}
	return c
}

func sizes(cs []Chunk[string]) (n []int) {
	for _, c := range cs {
		n = append(n, len(c.Items))
	}
	return n
}

func TestChunkerClosesAtCountAndBytes(t *testing.T) {
	for name, tc := range map[string]struct {
		limits Limits
		bytes  []int
		want   string // sizes of closed chunks, then of the remainder
	}{
		"count":                            {Limits{Count: 3}, []int{1, 1, 1, 1, 1, 1, 1}, "[3 3] [1]"},
		"streaming":                        {Limits{Count: 1}, []int{1, 1}, "[1 1] []"},
		"bytes met":                        {Limits{Count: 9, Bytes: 4}, []int{2, 2, 1}, "[2] [1]"},
		"bytes would be passed":            {Limits{Count: 9, Bytes: 4}, []int{3, 2, 1}, "[1] [2]"},
		"one item larger than the limit":   {Limits{Count: 9, Bytes: 4}, []int{1, 7, 1}, "[1 1] [1]"},
		"passed and met by the same item":  {Limits{Count: 9, Bytes: 4}, []int{3, 4}, "[1 1] []"},
		"nothing":                          {Limits{Count: 9}, nil, "[] []"},
		"exactly full leaves no remainder": {Limits{Count: 2}, []int{1, 1}, "[2] []"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewChunker[string](tc.limits)
			var closed []Chunk[string]
			for i, b := range tc.bytes {
				it := item(i)
				it.Bytes = b
				closed = append(closed, c.Add("", "", it, t0)...)
			}
			for _, ch := range closed {
				if !ch.Closed {
					t.Error("a full chunk is not closed")
				}
			}
			rest := c.Flush()
			for _, ch := range rest {
				if ch.Closed {
					t.Error("a remainder is closed")
				}
			}
			if got := fmt.Sprint(sizes(closed), sizes(rest)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if c.held != 0 || len(c.open) != 0 {
				t.Error("something is held after Flush")
			}
		})
	}
}

func TestChunkerKeepsDestinationsAndKeysApart(t *testing.T) {
	c := NewChunker[string](Limits{Count: 2})
	add := func(dest, order string, i int) []Chunk[string] { return c.Add(dest, order, item(i), t0) }
	add("a", "", 0)
	add("b", "", 1)
	add("a", "k", 2)
	if out := add("a", "", 3); len(out) != 1 || out[0].Destination != "a" || out[0].Order != "" {
		t.Errorf("closed %+v", out)
	}
	add("a", "", 4)
	rest := c.Flush()
	var got []string
	for _, r := range rest {
		got = append(got, r.Destination+r.Order+r.Items[0].Value)
	}
	if fmt.Sprint(got) != "[b1 ak2 a4]" {
		t.Errorf("remainders %v, want them in order of their first message", got)
	}
}

func TestChunkerGivesBackWhatALongBundleHolds(t *testing.T) {
	c := NewChunker[string](Limits{Count: 1000})
	seen := 0
	for i := range 100 {
		it := item(i)
		it.Bytes = 1 << 20
		for _, ch := range c.Add(fmt.Sprint(i), "", it, t0) {
			seen += len(ch.Items)
		}
		if c.held > maxHeld {
			t.Fatalf("%d bytes held", c.held)
		}
	}
	for _, ch := range c.Flush() {
		seen += len(ch.Items)
	}
	if seen != 100 {
		t.Errorf("%d of 100 items came back", seen)
	}
}

func TestCoalesceFillsBatchesFromRemainders(t *testing.T) {
	f := NewCoalesce[string](Limits{Count: 50}, 5*time.Second)
	var held, closed []Chunk[string]
	for i := range 120 { // one message a bundle, 20 ms apart
		var out []Chunk[string]
		out, held = f.add(held, chunkOf("t", t0.Add(time.Duration(i)*20*time.Millisecond), i, 1))
		closed = append(closed, out...)
	}
	if fmt.Sprint(sizes(closed)) != "[50 50]" {
		t.Fatalf("closed %v", sizes(closed))
	}
	third := t0.Add(100 * 20 * time.Millisecond)
	if p := f.plan(held); p.due != third.Add(5*time.Second).UnixNano() || p.hold != 100 {
		t.Errorf("plan %+v, want 5 s after the 101st message, and its time", p)
	}
	if out, rest := f.due(held, third.Add(4900*time.Millisecond)); len(out) != 0 || len(rest) != 20 {
		t.Errorf("an early timer closed %v", sizes(out))
	}
	out, rest := f.due(held, third.Add(5*time.Second))
	if fmt.Sprint(sizes(out)) != "[20]" || !out[0].Closed || len(rest) != 0 {
		t.Errorf("timer closed %v, left %d", sizes(out), len(rest))
	}
}

func TestCoalesceLeftoverAgesFromItsOwnFirstMessage(t *testing.T) {
	f := NewCoalesce[string](Limits{Count: 50}, 5*time.Second)
	_, held := f.add(nil, chunkOf("t", t0, 0, 30))
	closed, held := f.add(held, chunkOf("t", t0.Add(time.Second), 30, 40))
	if fmt.Sprint(sizes(closed), sizes(held)) != "[50] [20]" {
		t.Fatalf("closed %v, held %v", sizes(closed), sizes(held))
	}
	if held[0].First != t0.Add(time.Second).UnixNano() || held[0].Closed {
		t.Errorf("leftover %+v", held[0])
	}
}

func TestCoalesceKeepsDestinationsApart(t *testing.T) {
	f := NewCoalesce[string](Limits{Count: 50}, 5*time.Second)
	_, held := f.add(nil, chunkOf("a", t0, 0, 30))
	_, held = f.add(held, chunkOf("b", t0.Add(time.Second), 100, 30))
	closed, held := f.add(held, chunkOf("a", t0.Add(2*time.Second), 30, 20))
	if len(closed) != 1 || closed[0].Destination != "a" || len(held) != 1 || held[0].Destination != "b" {
		t.Fatalf("closed %+v, held %+v", closed, held)
	}
	_, held = f.add(held, chunkOf("a", t0.Add(3*time.Second), 50, 1))
	closed, held = f.due(held, t0.Add(6*time.Second))
	if len(closed) != 1 || closed[0].Destination != "b" || len(held) != 1 {
		t.Errorf("b alone was due; closed %+v", closed)
	}
}

func TestCoalesceEmptyState(t *testing.T) {
	f := NewCoalesce[string](Limits{Count: 50}, 5*time.Second)
	if closed, rest := f.due(nil, t0); closed != nil || rest != nil {
		t.Error("something came of nothing")
	}
	if f.plan(nil) != (plan{}) {
		t.Error("a plan for nothing")
	}
}

// TestEveryItemComesOutOnce sends random bundles through chunker and coalescer:
// nothing is lost or doubled, no batch passes its limits, and all but the timed
// batches are full.
func TestEveryItemComesOutOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{Count: rapid.IntRange(1, 60).Draw(t, "count"), Bytes: rapid.SampledFrom([]int{0, 10, 500}).Draw(t, "bytes")}
		bundles := rapid.SliceOfN(rapid.IntRange(0, 130), 0, 20).Draw(t, "bundles")
		f := NewCoalesce[string](l, 5*time.Second)
		now, n := t0, 0
		var held, closed, timed []Chunk[string]
		give := func(cs []Chunk[string]) {
			for _, c := range cs {
				if c.Closed {
					closed = append(closed, c)
					continue
				}
				var out []Chunk[string]
				out, held = f.add(held, c)
				closed = append(closed, out...)
			}
		}
		for _, size := range bundles {
			ch := NewChunker[string](l)
			for range size {
				it := item(n)
				it.Bytes = 1 + n%7
				n++
				give(ch.Add([]string{"a", "b"}[n%2], "", it, now))
				now = now.Add(10 * time.Millisecond)
			}
			give(ch.Flush())
			if rapid.Bool().Draw(t, "timer") {
				var out []Chunk[string]
				out, held = f.due(held, now)
				timed = append(timed, out...)
			}
		}
		out, held := f.due(held, now.Add(time.Hour))
		timed = append(timed, out...)
		if len(held) != 0 {
			t.Fatalf("%d chunks held for ever", len(held))
		}
		seen := map[string]int{}
		for i, c := range append(closed, timed...) {
			for _, it := range c.Items {
				seen[it.Value]++
			}
			if len(c.Items) > l.Count || (l.Bytes > 0 && c.Bytes() > l.Bytes && len(c.Items) > 1) {
				t.Fatalf("batch of %d items, %d bytes", len(c.Items), c.Bytes())
			}
			if i < len(closed) && l.Bytes == 0 && len(c.Items) != l.Count {
				t.Fatalf("closed batch of %d, want %d", len(c.Items), l.Count)
			}
		}
		if len(seen) != n {
			t.Fatalf("%d of %d items came out", len(seen), n)
		}
		for v, k := range seen {
			if k != 1 {
				t.Fatalf("item %s came out %d times", v, k)
			}
		}
	})
}

type row struct {
	Name string
	Data []byte
	Attr map[string]string
}

func TestChunkSurvivesItsCoder(t *testing.T) {
	want := Chunk[row]{
		Destination: "topic", Order: "key", First: t0.UnixNano(), Closed: true,
		Items: []Item[row]{
			{Value: row{"a", []byte{0, 255}, map[string]string{"x": "y"}}, Time: int64(mtime.MinTimestamp), Bytes: 7},
			{Value: row{Name: "жé"}, Time: math.MaxInt32, Bytes: 0},
		},
	}
	b, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode[row](b)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for n := range b {
		if _, err := Decode[row](b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes decode", n, len(b))
		}
	}
}

func init() { beam.RegisterType(reflect.TypeFor[row]()) }
