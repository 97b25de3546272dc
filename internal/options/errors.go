package options

import (
	"errors"
	"slices"
	"strings"
)

// An Error is one mistake in the options of a connector. It is one line of
// text, names the option as the user wrote it, and never shows the value of an
// option that is secret.
type Error struct {
	// Key is the option's name, as the user wrote it.
	Key string
	// Value is the text given; empty for secret and for unknown options.
	Value string
	// Problem says what is wrong.
	Problem string
	// Legal is the list or range of legal values, where that helps.
	Legal string
	// Nearest is the legal name or value that was probably meant.
	Nearest string
	// Also holds the other options that take part in the mistake.
	Also []string
}

// Error returns the mistake as one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Key)
	if e.Value != "" {
		b.WriteString("=" + shorten(e.Value))
	}
	b.WriteString(": " + e.Problem)
	if e.Nearest != "" {
		b.WriteString(", did you mean " + e.Nearest + "?")
	}
	if e.Legal != "" {
		b.WriteString(" (legal: " + e.Legal + ")")
	}
	return b.String()
}

// concerns tells whether the mistake is about one of these options.
func (e *Error) concerns(keys map[string]bool) bool {
	return keys[e.Key] || slices.ContainsFunc(e.Also, func(k string) bool { return keys[k] })
}

// shorten keeps a mistake on one line of readable length.
func shorten(s string) string {
	const most = 60
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return s
}

// Errors takes a joined error apart into the mistakes it holds, in order.
// Errors of other types are left out.
func Errors(err error) []*Error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*Error
		for _, e := range many.Unwrap() {
			all = append(all, Errors(e)...)
		}
		return all
	}
	var one *Error
	if errors.As(err, &one) {
		return []*Error{one}
	}
	return nil
}

// Lines returns the lines of an error as they are printed, one a mistake.
func Lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}
