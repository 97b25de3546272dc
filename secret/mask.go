package secret

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// masked stands for a value in the text of others.
const masked = "***"

// Mask replaces the values in a text made by others, such as the error of a
// client library, in the forms in which values are usually written.
func Mask(text string, values ...Value) string {
	var r Redactor
	r.Add(values...)
	return r.Mask(text)
}

// A Redactor masks the values it was given. Its zero value masks nothing. It is
// safe for concurrent use.
type Redactor struct {
	mu    sync.Mutex
	forms []func() string // closures for the same reason as in Value
}

// Add makes the Redactor mask values too.
func (r *Redactor) Add(values ...Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		for _, form := range forms(v.Reveal()) {
			r.forms = append(r.forms, func() string { return form })
		}
	}
	// The longest first: one value may be part of another.
	slices.SortStableFunc(r.forms, func(a, b func() string) int { return cmp.Compare(len(b()), len(a())) })
	r.forms = slices.CompactFunc(r.forms, func(a, b func() string) bool { return a() == b() })
}

// Mask returns the text without the values.
func (r *Redactor) Mask(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, form := range r.forms {
		text = replace(text, form())
	}
	return text
}

// Error masks the text of an error. What is wrapped stays reachable for
// errors.Is and errors.As, so print the error itself, not what it wraps.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	text := r.Mask(err.Error())
	if text == err.Error() {
		return err
	}
	return &maskedError{text: text, err: err}
}

type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string    { return e.text }
func (e *maskedError) GoString() string { return e.text }
func (e *maskedError) Unwrap() error    { return e.err }

// forms returns a value as it may stand in a URL, in quotes, or encoded.
func forms(text string) []string {
	if text == "" {
		return nil
	}
	quoted := strconv.Quote(text)
	all := []string{text, url.QueryEscape(text), url.PathEscape(text), url.UserPassword("", text).String()[1:], quoted[1 : len(quoted)-1]}
	if len(text) >= short {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(text)), base64.URLEncoding.EncodeToString([]byte(text)))
	}
	return all
}

// short values are masked only where they stand alone: replacing each a in a
// text would tell that the password is a.
const short = 4

func replace(text, value string) string {
	if len(value) >= short {
		return strings.ReplaceAll(text, value, masked)
	}
	var b strings.Builder
	for {
		i := strings.Index(text, value)
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := i + len(value)
		alone := (i == 0 || !wordByte(text[i-1])) && (end == len(text) || !wordByte(text[end]))
		b.WriteString(text[:i])
		if alone {
			b.WriteString(masked)
		} else {
			b.WriteString(value)
		}
		text = text[end:]
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// secretWords are found in the keys of credentials, separators left out.
var secretWords = []string{
	"password", "passwd", "passphrase", "secret", "token", "jaas", "credential",
	"keystorekey", "privatekey", "apikey", "accesskey",
}

// harmlessEnds are the last words of keys that speak about a credential without
// holding one: token.refresh.interval, credentialsFile.
var harmlessEnds = []string{
	"interval", "timeout", "ms", "millis", "source", "endpoint", "url", "uri", "file", "path",
	"location", "type", "class", "provider", "serializer", "deserializer", "algorithm", "enabled", "format",
}

// LooksSecret tells whether the key of a property names a credential, so that
// its value must be a reference.
func LooksSecret(key string) bool {
	words := keyWords(key)
	if len(words) == 0 || slices.Contains(harmlessEnds, words[len(words)-1]) {
		return false
	}
	plain := strings.Join(words, "")
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(plain, w) })
}

// keyWords parts a key at its separators and capitals, in lower case.
func keyWords(key string) []string {
	var b strings.Builder
	lower := false
	for _, r := range key {
		switch {
		case r == '.' || r == '-' || r == '_' || r == ' ':
			b.WriteByte(' ')
			lower = false
			continue
		case lower && r >= 'A' && r <= 'Z':
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		lower = r >= 'a' && r <= 'z'
	}
	return strings.Fields(strings.ToLower(b.String()))
}
