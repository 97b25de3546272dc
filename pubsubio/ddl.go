package pubsubio

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ddlToAvro turns a column list as Spark takes it, "id BIGINT NOT NULL, tags
// ARRAY<STRING>", into an Avro record. Every column and item may be null unless
// it says NOT NULL. A colon between name and type is allowed, and a COMMENT.
func ddlToAvro(text string) (string, error) {
	p := ddl{rest: text}
	fields, err := p.columns("")
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"type": "record", "name": "row", "fields": fields})
	return string(b), err
}

// A ddl is what is left of a column list.
type ddl struct {
	rest  string
	rows  int // nested records so far: each needs a name of its own
	depth int
}

// columns reads columns up to a closing token, empty for the end of the text.
func (p *ddl) columns(end string) ([]any, error) {
	var fields []any
	seen := map[string]bool{}
	for {
		name, quoted := p.token()
		if name == "" || !quoted && !isWord(name) {
			return nil, fmt.Errorf("has %s where a column name should be", p.at(name))
		}
		if !isAvroName(name) {
			return nil, fmt.Errorf("has the column %q; names are letters, digits and _", name)
		}
		if seen[name] {
			return nil, fmt.Errorf("has the column %q twice", name)
		}
		seen[name] = true
		if strings.HasPrefix(strings.TrimSpace(p.rest), ":") {
			p.token()
		}
		t, err := p.typ()
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		required, err := p.modifiers()
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		if !required {
			t = []any{"null", t}
		}
		fields = append(fields, map[string]any{"name": name, "type": t})
		switch next, _ := p.token(); next {
		case ",":
		case end:
			return fields, nil
		default:
			return nil, fmt.Errorf("column %q: has %s after its type", name, p.at(next))
		}
	}
}

func (p *ddl) at(token string) string {
	if token == "" {
		return "nothing"
	}
	return strconv.Quote(token)
}

// modifiers reads NOT NULL and COMMENT.
func (p *ddl) modifiers() (required bool, err error) {
	for {
		before := p.rest
		switch word, quoted := p.token(); {
		case !quoted && strings.EqualFold(word, "NOT"):
			if null, _ := p.token(); !strings.EqualFold(null, "NULL") {
				return false, fmt.Errorf("has NOT without NULL")
			}
			required = true
		case !quoted && strings.EqualFold(word, "COMMENT"):
			if text, quoted := p.token(); !quoted {
				return false, fmt.Errorf("has %s where the text of a comment should be", p.at(text))
			}
		default:
			p.rest = before
			return required, nil
		}
	}
}

// simpleTypes are the types without parameters.
var simpleTypes = map[string]any{
	"STRING": "string", "VARCHAR": "string", "CHAR": "string",
	"TINYINT": "int", "BYTE": "int", "SMALLINT": "int", "SHORT": "int", "INT": "int", "INTEGER": "int",
	"BIGINT": "long", "LONG": "long", "FLOAT": "float", "REAL": "float", "DOUBLE": "double",
	"BOOLEAN": "boolean", "BINARY": "bytes",
	"DATE":          map[string]any{"type": "int", "logicalType": "date"},
	"TIMESTAMP":     map[string]any{"type": "long", "logicalType": "timestamp-micros"},
	"TIMESTAMP_LTZ": map[string]any{"type": "long", "logicalType": "timestamp-micros"},
	"TIMESTAMP_NTZ": map[string]any{"type": "long", "logicalType": "local-timestamp-micros"},
}

// typ reads a type.
func (p *ddl) typ() (any, error) {
	if p.depth++; p.depth > maxDepth/2 {
		return nil, fmt.Errorf("has types nested too deeply")
	}
	defer func() { p.depth-- }()
	word, quoted := p.token()
	name := strings.ToUpper(word)
	if t, ok := simpleTypes[name]; ok && !quoted {
		if name == "VARCHAR" || name == "CHAR" {
			if _, err := p.numbers(1); err != nil {
				return nil, err
			}
		}
		return t, nil
	}
	switch name {
	case "DECIMAL", "DEC", "NUMERIC":
		return p.decimal()
	case "ARRAY":
		items, err := p.inside(func() (any, error) { return p.typ() })
		return map[string]any{"type": "array", "items": []any{"null", items}}, err
	case "MAP":
		values, err := p.inside(func() (any, error) {
			if key, _ := p.token(); !strings.EqualFold(key, "STRING") {
				return nil, fmt.Errorf("has a map with %s keys; JSON has STRING keys only", p.at(key))
			}
			if comma, _ := p.token(); comma != "," {
				return nil, fmt.Errorf("has a map without the type of its values")
			}
			return p.typ()
		})
		return map[string]any{"type": "map", "values": []any{"null", values}}, err
	case "STRUCT":
		if open, _ := p.token(); open != "<" {
			return nil, fmt.Errorf("has %s after STRUCT, which takes <NAME: TYPE, ...>", p.at(open))
		}
		p.rows++
		row := "row" + strconv.Itoa(p.rows)
		fields, err := p.columns(">")
		return map[string]any{"type": "record", "name": row, "fields": fields}, err
	}
	return nil, fmt.Errorf("has the type %s, which is not known", p.at(word))
}

// inside reads what stands between < and >.
func (p *ddl) inside(read func() (any, error)) (any, error) {
	if open, _ := p.token(); open != "<" {
		return nil, fmt.Errorf("has %s where < should be", p.at(open))
	}
	t, err := read()
	if err != nil {
		return nil, err
	}
	if end, _ := p.token(); end != ">" {
		return nil, fmt.Errorf("has %s where > should be", p.at(end))
	}
	return t, nil
}

// decimal reads a precision and a scale, 10 and 0 as in Spark.
func (p *ddl) decimal() (any, error) {
	n, err := p.numbers(2)
	if err != nil {
		return nil, err
	}
	precision, scale := 10, 0
	if len(n) > 0 {
		precision = n[0]
	}
	if len(n) > 1 {
		scale = n[1]
	}
	if precision < 1 || precision > 38 || scale > precision {
		return nil, fmt.Errorf("has decimal(%d,%d); the precision is 1 to 38 and the scale at most that", precision, scale)
	}
	return map[string]any{"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}, nil
}

// numbers reads up to most numbers in parentheses, if there are any.
func (p *ddl) numbers(most int) ([]int, error) {
	if !strings.HasPrefix(strings.TrimSpace(p.rest), "(") {
		return nil, nil
	}
	p.token()
	var n []int
	for {
		word, _ := p.token()
		v, err := strconv.Atoi(word)
		if err != nil || v < 0 || len(n) == most {
			return nil, fmt.Errorf("has %s where a number or ) should be", p.at(word))
		}
		n = append(n, v)
		switch end, _ := p.token(); end {
		case ")":
			return n, nil
		case ",":
		default:
			return nil, fmt.Errorf("has %s where , or ) should be", p.at(end))
		}
	}
}

// token takes the next word, quoted name or text, or punctuation; empty at the
// end.
func (p *ddl) token() (token string, quoted bool) {
	s := strings.TrimSpace(p.rest)
	if s == "" {
		p.rest = ""
		return "", false
	}
	if q := s[0]; q == '`' || q == '\'' || q == '"' {
		if text, rest, closed := strings.Cut(s[1:], s[:1]); closed {
			p.rest = rest
			return text, true
		}
	}
	n := 0
	for n < len(s) && isWord(s[n:n+1]) {
		n++
	}
	n = max(n, 1)
	token, p.rest = s[:n], s[n:]
	return token, false
}

func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && !isLetter(c) && (c < '0' || c > '9') && c < 0x80 {
			return false
		}
	}
	return s != ""
}

func isAvroName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && !isLetter(c) && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
