// Package options turns the documented options of a connector, a map of text,
// into its typed ones.
//
// A connector declares a Table: one row an option, with its documentation, how
// its text is read and where it goes. From the same table come the parsing, the
// list of every mistake of a map at once, and the documents.
package options

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/beam-brokers/beam-brokers/secret"
)

// An Info is the documented side of an option.
type Info struct {
	// Name is the documented name; letter case matters.
	Name string
	// Aliases are other names of the option.
	Aliases []Alias
	// Typed is the same option in Go, as "AckDeadline(d)".
	Typed string
	// Default is the documented default; empty where there is none.
	Default string
	// Legal says which values are legal; each constructor has its own text for
	// an empty one.
	Legal string
	// Sample is a legal value, for tests and documents.
	Sample string
	// Doc says what the option does, in a sentence or two.
	Doc string
	// Source names the document the option comes from; empty is ours.
	Source string
	// Required options must be given.
	Required bool
	// Secret values are never shown.
	Secret bool
	// Refs allows references, ${env:X} and ${file:/path}, inside the value. A
	// secret option always does.
	Refs bool
	// Auto allows the value auto, which is the same as leaving the option out.
	Auto bool
	// Empty allows an empty text.
	Empty bool
}

// An Alias is another name of an option, or another spelling of a value.
type Alias struct {
	// Name is the other name.
	Name string
	// Means is the value an alias of a value stands for.
	Means string
	// Notice is said once, at construction, when the alias is used; empty says
	// nothing.
	Notice string
}

// An Option is one row of a Table: an option of the settings C.
type Option[C any] struct {
	Info
	set func(c *C, text string) (notice string, err error)
}

// illegal is a parser's complaint with a legal value that was probably meant.
type illegal struct {
	problem, nearest string
}

func (e illegal) Error() string { return e.problem }

func option[C any](i Info, legal string, set func(*C, string) (string, error)) Option[C] {
	if i.Legal == "" {
		i.Legal = legal
	}
	if i.Auto {
		i.Legal += ", or auto"
	}
	return Option[C]{Info: i, set: set}
}

// parsed is an option whose text a function reads.
func parsed[C, T any](i Info, legal string, parse func(string) (T, error), set func(*C, T)) Option[C] {
	return option(i, legal, func(c *C, text string) (string, error) {
		v, err := parse(text)
		if err == nil {
			set(c, v)
		}
		return "", err
	})
}

// Duration is an option that takes a length of time.
func Duration[C any](i Info, u Units, set func(*C, time.Duration)) Option[C] {
	return parsed(i, u.Spoken(), func(text string) (time.Duration, error) { return ParseDuration(text, u) }, set)
}

// Size is an option that takes a number of bytes.
func Size[C any](i Info, set func(*C, int64)) Option[C] {
	return parsed(i, "bytes, or a number with k, m, g", ParseSize, set)
}

// Instant is an option that takes a point in time.
func Instant[C any](i Info, set func(*C, time.Time)) Option[C] {
	return parsed(i, InstantForm, ParseInstant, set)
}

// Int is an option that takes a whole number of any size; ranges are for the
// settings to check.
func Int[C any](i Info, set func(*C, int)) Option[C] {
	return parsed(i, "a whole number", func(text string) (int, error) {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return 0, errors.New("is not a whole number")
		}
		return n, nil
	}, set)
}

// IntIn is an Int within a range.
func IntIn[C any](i Info, least, most int, set func(*C, int)) Option[C] {
	legal := strconv.Itoa(least) + " to " + strconv.Itoa(most)
	return parsed(i, legal, func(text string) (int, error) {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		switch {
		case err != nil:
			return 0, errors.New("is not a whole number")
		case n < least || n > most:
			return 0, errors.New("is out of range")
		}
		return n, nil
	}, set)
}

// Bool is an option that takes true or false, in any letter case.
func Bool[C any](i Info, set func(*C, bool)) Option[C] {
	return parsed(i, "true, false", func(text string) (bool, error) {
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return false, errors.New("is neither true nor false")
	}, set)
}

// A Choice is the legal values of an Enum.
type Choice struct {
	Values []string
	// Aliases are further spellings.
	Aliases []Alias
	// AnyCase ignores letter case.
	AnyCase bool
}

// Enum is an option that takes one of several words.
func Enum[C any](i Info, choice Choice, set func(*C, string)) Option[C] {
	return option(i, strings.Join(choice.Values, ", "), func(c *C, text string) (string, error) {
		text = strings.TrimSpace(text)
		for _, v := range choice.Values {
			if v == text || choice.AnyCase && strings.EqualFold(v, text) {
				set(c, v)
				return "", nil
			}
		}
		for _, a := range choice.Aliases {
			if a.Name == text || choice.AnyCase && strings.EqualFold(a.Name, text) {
				set(c, a.Means)
				return a.Notice, nil
			}
		}
		return "", illegal{"is not a legal value", Nearest(text, choice.Values)}
	})
}

// Text is an option that takes any text.
func Text[C any](i Info, set func(*C, string)) Option[C] {
	return option(i, "", func(c *C, text string) (string, error) {
		set(c, text)
		return "", nil
	})
}

// List is an option that takes words with commas between them. Blanks around
// them do not count; empty words are a mistake.
func List[C any](i Info, set func(*C, []string)) Option[C] {
	return parsed(i, "words with commas between them", func(text string) ([]string, error) {
		words := strings.Split(text, ",")
		for n, w := range words {
			words[n] = strings.TrimSpace(w)
			if words[n] == "" {
				return nil, errors.New("has an empty word")
			}
		}
		return words, nil
	}, set)
}

// JSON is an option that takes JSON.
func JSON[C any](i Info, set func(*C, json.RawMessage)) Option[C] {
	return parsed(i, "JSON", func(text string) (json.RawMessage, error) {
		if !json.Valid([]byte(text)) {
			return nil, errors.New("is not JSON")
		}
		return json.RawMessage(text), nil
	}, set)
}

// Func is an option whose text a function of the connector's reads; the error
// it returns completes the sentence "NAME=TEXT: ...".
func Func[C, T any](i Info, parse func(string) (T, error), set func(*C, T)) Option[C] {
	return parsed(i, "", parse, set)
}

// Secret is an option that takes a credential: text with references, or a
// literal for pipelines that stay in the process.
func Secret[C any](i Info, set func(*C, secret.Ref)) Option[C] {
	i.Secret = true
	return parsed(i, "${env:X}, ${file:/path}", secret.Parse, set)
}

// SecretURL is an option that takes a URL which may hold a password.
func SecretURL[C any](i Info, set func(*C, secret.Ref)) Option[C] {
	i.Secret, i.Refs = true, true
	return parsed(i, "a URL; its password may be ${env:X} or ${file:/path}", secret.ParseURL, set)
}
