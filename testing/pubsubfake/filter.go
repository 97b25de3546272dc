package pubsubfake

import (
	"strings"
)

// A filterFunc tells whether a message with these attributes passes.
type filterFunc func(attributes map[string]string) bool

// parseFilter compiles an expression of the service's filter language, which
// knows only attributes:
//
//	attributes:key            the key is there
//	attributes.key = "v"      attributes."any key" != "v"
//	hasPrefix(attributes.key, "v")
//
// joined by AND, OR, NOT (or -) and parentheses. AND and OR may not be mixed
// without parentheses. The empty filter is nil: everything passes.
func parseFilter(text string) (filterFunc, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxFilter {
		return nil, invalid("Invalid filter: %d bytes, at most %d are allowed.", len(text), maxFilter)
	}
	p := &filterParser{text: text}
	p.next()
	f := p.expression()
	if p.err == "" && p.kind != tokenEnd {
		p.fail("unexpected " + p.token)
	}
	if p.err != "" {
		return nil, invalid("Invalid filter at offset %d: %s.", p.at, p.err)
	}
	return f, nil
}

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenString
	tokenSign
)

type filterParser struct {
	text  string
	pos   int // behind the token
	at    int // where the token begins
	kind  tokenKind
	token string
	err   string // the first one
}

func (p *filterParser) fail(why string) {
	if p.err == "" {
		p.err = why
	}
	p.kind, p.token = tokenEnd, "end"
}

// next reads one token.
func (p *filterParser) next() {
	if p.err != "" {
		return
	}
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	p.at = p.pos
	if p.pos == len(p.text) {
		p.kind, p.token = tokenEnd, "end"
		return
	}
	switch c := p.text[p.pos]; {
	case c == '"':
		p.quoted()
	case wordByte(c):
		end := p.pos
		for end < len(p.text) && (wordByte(p.text[end]) || p.text[end] == '-') {
			end++
		}
		p.kind, p.token, p.pos = tokenWord, p.text[p.pos:end], end
	case strings.HasPrefix(p.text[p.pos:], "!="):
		p.kind, p.token = tokenSign, "!="
		p.pos += 2
	case strings.IndexByte("().,:=-", c) >= 0:
		p.kind, p.token = tokenSign, string(c)
		p.pos++
	default:
		p.fail("unexpected character " + string(c))
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quoted reads a string; a backslash takes the next character as it is.
func (p *filterParser) quoted() {
	var b strings.Builder
	for i := p.pos + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			p.kind, p.token, p.pos = tokenString, b.String(), i+1
			return
		case c == '\\' && i+1 < len(p.text):
			i++
			b.WriteByte(p.text[i])
		default:
			b.WriteByte(c)
		}
	}
	p.fail("a string without end")
}

func (p *filterParser) take(kind tokenKind, token string) bool {
	if p.err != "" || p.kind != kind || p.token != token {
		return false
	}
	p.next()
	return true
}

func (p *filterParser) want(kind tokenKind, token string) {
	if !p.take(kind, token) {
		p.fail("expected " + token)
	}
}

// expression is a chain of terms with one operator.
func (p *filterParser) expression() filterFunc {
	terms := []filterFunc{p.term()}
	op := ""
	for p.kind == tokenWord && (p.token == "AND" || p.token == "OR") {
		if op == "" {
			op = p.token
		} else if op != p.token {
			p.fail("AND and OR need parentheses")
			return nil
		}
		p.next()
		terms = append(terms, p.term())
	}
	if len(terms) == 1 {
		return terms[0]
	}
	all := op == "AND"
	return func(a map[string]string) bool {
		for _, f := range terms {
			if f(a) != all {
				return !all
			}
		}
		return all
	}
}

func (p *filterParser) term() filterFunc {
	switch {
	case p.take(tokenWord, "NOT"), p.take(tokenSign, "-"):
		f := p.term()
		return func(a map[string]string) bool { return !f(a) }
	case p.take(tokenSign, "("):
		f := p.expression()
		p.want(tokenSign, ")")
		return f
	case p.take(tokenWord, "hasPrefix"):
		p.want(tokenSign, "(")
		p.want(tokenWord, "attributes")
		p.want(tokenSign, ".")
		key := p.key()
		p.want(tokenSign, ",")
		prefix := p.value()
		p.want(tokenSign, ")")
		return func(a map[string]string) bool {
			v, ok := a[key]
			return ok && strings.HasPrefix(v, prefix)
		}
	}
	return p.comparison()
}

func (p *filterParser) comparison() filterFunc {
	p.want(tokenWord, "attributes")
	if p.take(tokenSign, ":") {
		key := p.key()
		return func(a map[string]string) bool {
			_, ok := a[key]
			return ok
		}
	}
	p.want(tokenSign, ".")
	key := p.key()
	equal := p.take(tokenSign, "=")
	if !equal {
		p.want(tokenSign, "!=")
	}
	value := p.value()
	return func(a map[string]string) bool {
		v, ok := a[key]
		return (ok && v == value) == equal
	}
}

func (p *filterParser) key() string {
	if p.kind != tokenWord && p.kind != tokenString {
		p.fail("expected the name of an attribute")
		return ""
	}
	key := p.token
	p.next()
	return key
}

func (p *filterParser) value() string {
	if p.kind != tokenString {
		p.fail("expected a string in quotes")
		return ""
	}
	v := p.token
	p.next()
	return v
}
