package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
)

// literals holds the values of this process. The closures keep them from a
// dump of the table by fmt.
var literals struct {
	sync.Mutex
	values map[string]func() string
}

// processKey makes digests that mean nothing outside of this process.
var processKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
})

func digest(text string) string {
	h := hmac.New(sha256.New, processKey())
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Literal is a credential written out in the program, for tests and for
// pipelines that stay in the process. The value is kept here; what travels is a
// handle that no other process can resolve. See CheckRunner.
func Literal(text string) Ref {
	if text == "" {
		return ""
	}
	id := digest(text)
	literals.Lock()
	defer literals.Unlock()
	if literals.values == nil {
		literals.values = map[string]func() string{}
	}
	if literals.values[id] == nil {
		literals.values[id] = func() string { return text }
	}
	return Ref("${literal:" + id + "}")
}

func literal(id string) (string, bool) {
	literals.Lock()
	defer literals.Unlock()
	f, ok := literals.values[id]
	if !ok {
		return "", false
	}
	return f(), true
}

// ErrLiteral tells that a literal credential would have to leave the process.
// Give a reference, ${env:X} or ${file:/path}, in its place.
var ErrLiteral = errors.New("a literal credential works only on Prism in the process")

// CheckRunner refuses literals for every runner other than Prism. An empty name
// is a runner that is not known; there a literal that does leave the process
// fails in Resolve.
func CheckRunner(runner string, refs ...Ref) error {
	name := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(runner)), "runner")
	if name == "" || name == "prism" {
		return nil
	}
	for _, r := range refs {
		if r.literal() {
			return &runnerError{runner: runner}
		}
	}
	return nil
}

// literal tells whether the Ref holds a value of this process, or is one.
func (r Ref) literal() bool {
	parts, err := split(string(r))
	if err != nil {
		return true
	}
	plain := 0
	for _, p := range parts {
		if p.kind == "literal" {
			return true
		}
		if p.kind == "" {
			plain++
		}
	}
	return len(parts) > 0 && plain == len(parts) && !isPlainURL(string(r))
}

type runnerError struct{ runner string }

func (e *runnerError) Error() string {
	return ErrLiteral.Error() + ", not on " + e.runner + "; use ${env:X} or ${file:/path}"
}

func (e *runnerError) Unwrap() error { return ErrLiteral }
