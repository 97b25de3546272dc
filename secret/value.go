package secret

import (
	"errors"
	"fmt"
	"log/slog"
)

// shown stands for a value wherever one would be printed.
const shown = "[secret]"

// A Value is a resolved credential. It stays on the worker: it does not travel,
// and printing it in any way shows nothing.
type Value struct {
	reveal  func() string // a closure, so that %+v of a struct around it is blind
	version string
}

func newValue(text string) Value {
	return Value{reveal: func() string { return text }, version: digest(text)}
}

// Reveal returns the credential itself, for the client's library.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// Version is the same for the same value, and differs for another one, within
// this process. It tells nothing about the value.
func (v Value) Version() string { return v.version }

// String shows nothing.
func (v Value) String() string { return shown }

// GoString shows nothing.
func (v Value) GoString() string { return shown }

// Format shows nothing, for every verb.
func (v Value) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown) }

// LogValue shows nothing.
func (v Value) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText refuses: a resolved credential does not travel.
func (v Value) MarshalText() ([]byte, error) {
	return nil, errors.New("a resolved secret does not travel; keep the Ref")
}
