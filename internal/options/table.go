package options

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// A Table holds the options of one direction of a connector.
type Table[C any] struct {
	// Options are the rows, in the order of the documents.
	Options []Option[C]
	// NoEffect lists what is taken with one line and does nothing.
	NoEffect []Closed
	// Refused lists what is refused, with the reason.
	Refused []Closed
	// Elsewhere holds names that belong to something else, with where: "is an
	// option of the source".
	Elsewhere map[string]string
}

// A Closed entry is a name, or a name with one value, of a closed list.
type Closed struct {
	// Name is the option; a trailing * stands for any rest.
	Name string
	// Value restricts the entry to one value, in any letter case; empty is all.
	Value string
	// Reason completes the sentence "NAME ...".
	Reason string
	// Source names the document the option comes from.
	Source string
}

func (c Closed) matches(name, value string) bool {
	if c.Value != "" && !strings.EqualFold(c.Value, strings.TrimSpace(value)) {
		return false
	}
	if stem, ok := strings.CutSuffix(c.Name, "*"); ok {
		return strings.HasPrefix(name, stem)
	}
	return c.Name == name
}

// String is the name, with its value where there is one.
func (c Closed) String() string {
	if c.Value == "" {
		return c.Name
	}
	return c.Name + "=" + c.Value
}

// A Result is what a map of options came to.
type Result struct {
	// Set holds the documented names of the options that were set, sorted.
	Set []string
	// Notices are lines to be said once, at construction.
	Notices []string
	// Failed holds the documented names of the options that have a mistake.
	Failed map[string]bool
	// Err joins the mistakes; nil when there is none.
	Err error
}

// And joins the mistakes found by a check of the settings. Those about an
// option that could not be read are left out, as following from it.
func (r *Result) And(err error) error {
	all := []error{r.Err}
	for _, e := range Errors(err) {
		if !e.concerns(r.Failed) {
			all = append(all, e)
		}
	}
	return errors.Join(all...)
}

// Parse reads a map into settings. It reports every mistake and sets what has
// none.
func (t *Table[C]) Parse(m map[string]string, c *C) Result {
	p := parser[C]{table: t, settings: c, from: map[string]string{}}
	p.Failed = map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p.one(key, m[key])
	}
	for _, o := range t.Options {
		if o.Required && p.from[o.Name] == "" {
			p.fail(o.Name, &Error{Key: o.Name, Problem: "is required", Legal: o.Legal})
		}
	}
	slices.Sort(p.Set)
	p.Err = errors.Join(p.errs...)
	return p.Result
}

type parser[C any] struct {
	Result
	table    *Table[C]
	settings *C
	from     map[string]string // documented name -> name in the map
	errs     []error
}

func (p *parser[C]) fail(name string, e *Error) {
	p.Failed[name] = true
	p.errs = append(p.errs, e)
}

// one reads one entry of the map.
func (p *parser[C]) one(key, text string) {
	for _, c := range p.table.Refused {
		if c.matches(key, text) {
			p.fail(key, &Error{Key: key, Value: c.Value, Problem: c.Reason})
			return
		}
	}
	for _, c := range p.table.NoEffect {
		if c.matches(key, text) {
			p.Notices = append(p.Notices, c.String()+" "+c.Reason)
			return
		}
	}
	o, alias := p.table.find(key)
	if o == nil {
		p.fail(key, p.table.unknown(key))
		return
	}
	if other := p.from[o.Name]; other != "" {
		p.fail(o.Name, &Error{Key: key, Problem: "is the same option as " + other + "; give one", Also: []string{other}})
		return
	}
	p.from[o.Name] = key
	if alias != nil && alias.Notice != "" {
		p.Notices = append(p.Notices, key+" "+alias.Notice)
	}
	p.set(o, key, text)
}

func (p *parser[C]) set(o *Option[C], key, text string) {
	if o.Auto && strings.EqualFold(strings.TrimSpace(text), "auto") {
		return
	}
	shown := text
	if o.Secret {
		shown = ""
	}
	if strings.TrimSpace(text) == "" && !o.Empty {
		p.fail(o.Name, &Error{Key: key, Problem: "is empty", Legal: o.Legal})
		return
	}
	if !o.Secret && !o.Refs && strings.Contains(text, "${") {
		p.fail(o.Name, &Error{Key: key, Value: shown, Problem: "holds a reference, which only options for credentials and addresses take"})
		return
	}
	notice, err := o.set(p.settings, text)
	if err != nil {
		e := &Error{Key: key, Value: shown, Problem: err.Error(), Legal: o.Legal}
		if why, ok := errors.AsType[illegal](err); ok {
			e.Nearest = why.nearest
		}
		p.fail(o.Name, e)
		return
	}
	if notice != "" {
		p.Notices = append(p.Notices, key+"="+shown+" "+notice)
	}
	p.Set = append(p.Set, o.Name)
}

func (t *Table[C]) find(key string) (*Option[C], *Alias) {
	for i := range t.Options {
		o := &t.Options[i]
		if o.Name == key {
			return o, nil
		}
		for j := range o.Aliases {
			if o.Aliases[j].Name == key {
				return o, &o.Aliases[j]
			}
		}
	}
	return nil, nil
}

// unknown says what is wrong with a name that is not in the table.
func (t *Table[C]) unknown(key string) *Error {
	if where := t.Elsewhere[key]; where != "" {
		return &Error{Key: key, Problem: where}
	}
	for _, c := range slices.Concat(t.NoEffect, t.Refused) {
		if c.Name == key && c.Value != "" {
			if o, _ := t.find(key); o == nil {
				return &Error{Key: key, Problem: "is not a legal value", Legal: t.closedValues(key)}
			}
		}
	}
	var names []string
	for _, o := range t.Options {
		names = append(names, o.Name)
		for _, a := range o.Aliases {
			names = append(names, a.Name)
		}
	}
	return &Error{Key: key, Problem: "is not an option", Nearest: Nearest(key, names)}
}

func (t *Table[C]) closedValues(key string) string {
	var values []string
	for _, c := range t.NoEffect {
		if c.Name == key {
			values = append(values, c.Value)
		}
	}
	return strings.Join(values, ", ")
}

// Rows returns the documented side of the options.
func (t *Table[C]) Rows() []Info {
	rows := make([]Info, len(t.Options))
	for i, o := range t.Options {
		rows[i] = o.Info
	}
	return rows
}

// The closed lists that the documents of all connectors share.
var (
	// SparkNoEffect is taken with one line.
	SparkNoEffect = []Closed{
		{Name: "sparkRuntimePlatform", Value: "OTHER", Reason: "has no effect: there is no Spark here"},
	}
	// SparkRefused is refused.
	SparkRefused = []Closed{
		{Name: "sparkRuntimePlatform", Value: "DATABRICKS", Reason: "is refused: there is no Databricks runtime here; give credentials as ${env:X} or ${file:/path}"},
		{Name: "databricks*", Reason: "is refused: secret scopes are not read; give credentials as ${env:X} or ${file:/path}"},
		{Name: "checkpointLocation", Reason: "is refused: progress is kept by the runner and by the broker; leave it out"},
		{Name: "path", Reason: "is refused: it belongs to Spark's file sink; give it to the transform that writes"},
		{Name: "trigger", Value: "continuous", Reason: "is refused: Beam reads in bundles; leave it out to read for ever"},
	}
)
