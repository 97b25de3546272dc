package secret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// A Ref is a credential that travels: text with references in it. The zero Ref
// is no credential. Printing a Ref in any way shows its references only.
type Ref string

// Env refers to an environment variable of the worker.
func Env(name string) Ref { return Ref("${env:" + name + "}") }

// File refers to a file of the worker, by its absolute path. The value is the
// file's content without its last line end.
func File(path string) Ref { return Ref("${file:" + path + "}") }

// Parse reads text as written by a user. Text without a reference becomes a
// Literal. ${X} is an error that points to ${env:X}.
func Parse(text string) (Ref, error) {
	parts, err := split(text)
	if err != nil {
		return "", err
	}
	refs := 0
	for _, p := range parts {
		switch p.kind {
		case "":
			continue
		case "literal":
			return "", errors.New("holds ${literal:...}, which only this program can make; use ${env:X} or ${file:/path}")
		}
		refs++
	}
	if refs == 0 {
		return Literal(text), nil
	}
	return Ref(text), nil
}

// ParseURL is Parse for a URL that may carry a user and a password: a password
// written out becomes a literal, the rest of the URL stays readable.
func ParseURL(text string) (Ref, error) {
	parts, err := split(text)
	if err != nil {
		return "", err
	}
	for _, p := range parts {
		if p.kind != "" {
			return Parse(text)
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		// The text of url's error holds the URL.
		return "", errors.New("is not a URL")
	}
	password, ok := u.User.Password()
	if !ok || password == "" {
		return Ref(text), nil
	}
	// The password stays as it was written, escapes included.
	start := strings.Index(text, "://") + 3
	at := start + strings.LastIndex(strings.SplitN(text[start:], "/", 2)[0], "@")
	colon := start + strings.Index(text[start:at], ":")
	return Ref(text[:colon+1]) + Literal(text[colon+1:at]) + Ref(text[at:]), nil
}

// Check tells whether the Ref is well formed. It resolves nothing.
func (r Ref) Check() error {
	_, err := split(string(r))
	return err
}

// Resolve returns the value on this machine, now: variables and files are read
// again at each call. The error names the reference and never holds a value.
func (r Ref) Resolve(ctx context.Context) (Value, error) {
	parts, err := split(string(r))
	if err != nil {
		return Value{}, err
	}
	var b strings.Builder
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return Value{}, fmt.Errorf("resolving %s: %w", p, err)
		}
		text, err := p.resolve()
		if err != nil {
			return Value{}, err
		}
		b.WriteString(text)
	}
	return newValue(b.String()), nil
}

// A part is a reference, or the text between two.
type part struct {
	kind string // env, file, literal; empty: plain text
	text string
}

// String is the reference as it is written; plain text is not shown.
func (p part) String() string {
	if p.kind == "" {
		return "text"
	}
	return "${" + p.kind + ":" + p.text + "}"
}

// split takes text apart into references and what is between them.
func split(text string) ([]part, error) {
	var parts []part
	for text != "" {
		i := strings.Index(text, "${")
		if i < 0 {
			return append(parts, part{text: text}), nil
		}
		if i > 0 {
			parts = append(parts, part{text: text[:i]})
		}
		body, rest, closed := strings.Cut(text[i+2:], "}")
		if !closed {
			return nil, errors.New("holds a reference that is not closed; write ${env:X} or ${file:/path}")
		}
		p, err := reference(body)
		if err != nil {
			return nil, err
		}
		parts, text = append(parts, p), rest
	}
	return parts, nil
}

// reference reads what stands between ${ and }.
func reference(body string) (part, error) {
	kind, arg, ok := strings.Cut(body, ":")
	switch {
	case !ok && isName(body):
		return part{}, fmt.Errorf("holds ${%s}, which is no reference; write ${env:%s}", body, body)
	case !ok:
		// What is in the braces may be anything, even a password: do not show it.
		return part{}, errors.New("holds ${...} that is no reference; write ${env:X} or ${file:/path}")
	case kind == "env" && !isName(arg):
		return part{}, errors.New("holds ${env:...} without the name of a variable")
	case kind == "file" && !filepath.IsAbs(arg):
		return part{}, errors.New("holds ${file:...} without an absolute path, which a worker needs")
	case kind == "env", kind == "file", kind == "literal":
		return part{kind, arg}, nil
	}
	return part{}, errors.New("holds a reference of an unknown kind; write ${env:X} or ${file:/path}")
}

func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r|0x20 >= 'a' && r|0x20 <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// maxFile bounds what a reference to a file reads: credentials are small, and a
// wrong path may lead to anything.
const maxFile = 1 << 20

func (p part) resolve() (string, error) {
	switch p.kind {
	case "":
		return p.text, nil
	case "env":
		v, ok := os.LookupEnv(p.text)
		if !ok {
			return "", fmt.Errorf("resolving %s: the variable is not set on this worker", p)
		}
		return v, nil
	case "file":
		return p.read()
	}
	text, ok := literal(p.text)
	if !ok {
		return "", fmt.Errorf("resolving a literal: it belongs to another process; use ${env:X} or ${file:/path}")
	}
	return text, nil
}

func (p part) read() (string, error) {
	info, err := os.Stat(p.text)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", p, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return "", fmt.Errorf("resolving %s: it is not a file of at most %d bytes", p, maxFile)
	}
	b, err := os.ReadFile(p.text)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", p, err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		// A file that is just being written looks like this.
		return "", fmt.Errorf("resolving %s: the file is empty", p)
	}
	return text, nil
}

// String shows the references of the Ref and nothing else.
func (r Ref) String() string {
	if r == "" {
		return ""
	}
	shown := []string{"secret"}
	parts, _ := split(string(r))
	for _, p := range parts {
		switch p.kind {
		case "env", "file":
			shown = append(shown, p.String())
		case "literal":
			shown = append(shown, "literal")
		}
	}
	return "[" + strings.Join(shown, " ") + "]"
}

// Format prints String for every verb: fmt would show the text itself for a
// verb that does not fit.
func (r Ref) Format(f fmt.State, _ rune) { fmt.Fprint(f, r.String()) }

// GoString shows what String shows.
func (r Ref) GoString() string { return r.String() }

// LogValue shows what String shows.
func (r Ref) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText lets a Ref travel, in JSON too. Text without a reference does not
// travel: it would be the credential itself.
func (r Ref) MarshalText() ([]byte, error) {
	parts, err := split(string(r))
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && parts[0].kind == "" && !isPlainURL(string(r)) {
		return nil, errors.New("a secret written out does not travel; use secret.Env, secret.File or secret.Literal")
	}
	return []byte(r), nil
}

// isPlainURL tells a URL without a password, which ParseURL leaves as it is.
func isPlainURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return false
	}
	_, has := u.User.Password()
	return !has
}

// UnmarshalText takes what MarshalText wrote.
func (r *Ref) UnmarshalText(text []byte) error {
	*r = Ref(text)
	return r.Check()
}
