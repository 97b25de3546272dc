package main

import (
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/pubsubio"
)

func init() {
	register.DoFn1x1[pubsubio.Message, string](&keyFn{})
	register.Function3x0(show)
}

// keyFn takes the key of a message.
type keyFn struct{ Attribute string }

// ProcessElement returns the key.
func (f *keyFn) ProcessElement(m pubsubio.Message) string { return m.Attributes[f.Attribute] }

// show prints the count of one key in one window.
func show(w beam.Window, key string, n int) {
	start := w.(window.IntervalWindow).Start
	fmt.Printf("%s\t%s\t%d\n", time.UnixMilli(int64(start)).UTC().Format(time.RFC3339), key, n)
}
