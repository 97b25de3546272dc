package options

import (
	"fmt"
	"strings"
)

// A Doc is the documented options of a connector.
type Doc struct {
	// Name is what the command line calls the connector: "pubsub".
	Name string
	// Package is the Go package: "pubsubio".
	Package string
	// Sections are its directions.
	Sections []Section
}

// A Section is the options of one direction.
type Section struct {
	Title             string
	Rows              []Info
	NoEffect, Refused []Closed
}

// Markdown renders the options of a connector as tables.
func (d Doc) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n", d.Package)
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n### %s\n\n", s.Title)
		b.WriteString("| Option | Default | Legal values | What it does | In Go | From |\n")
		b.WriteString("|---|---|---|---|---|---|\n")
		for _, r := range s.Rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, code(r.defaultText()), cell(r.Legal), cell(r.text()), code(r.Typed), cell(r.source()))
		}
		for _, c := range s.NoEffect {
			fmt.Fprintf(&b, "| `%s` | | | %s | | |\n", c, cell("Taken, and "+c.Reason+"."))
		}
		for _, c := range s.Refused {
			fmt.Fprintf(&b, "| `%s` | | | %s | | |\n", c, cell(upper(c.Reason)+"."))
		}
	}
	return b.String()
}

// Text renders the options of a connector for a terminal.
func (d Doc) Text() string {
	var b strings.Builder
	for i, s := range d.Sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s options of %s\n", s.Title, d.Name)
		for _, r := range s.Rows {
			b.WriteString("\n  " + r.Name)
			if t := r.defaultText(); t != "" {
				b.WriteString("  [" + t + "]")
			}
			b.WriteString("\n" + wrap(r.text(), 72, "      "))
			if r.Legal != "" {
				b.WriteString(wrap("Legal: "+r.Legal, 72, "      "))
			}
		}
		for _, c := range s.NoEffect {
			b.WriteString("\n  " + c.String() + "\n" + wrap("Taken, and "+c.Reason+".", 72, "      "))
		}
		for _, c := range s.Refused {
			b.WriteString("\n  " + c.String() + "\n" + wrap(upper(c.Reason)+".", 72, "      "))
		}
	}
	return b.String()
}

func (i Info) defaultText() string {
	if i.Required {
		return "required"
	}
	return i.Default
}

func (i Info) source() string {
	if i.Source == "" {
		return "ours"
	}
	return i.Source
}

// text is the documentation with what the flags of the option say.
func (i Info) text() string {
	s := i.Doc
	if i.Secret {
		s += " Secret: ${env:X} or ${file:/path}."
	} else if i.Refs {
		s += " May hold ${env:X} and ${file:/path}."
	}
	for _, a := range i.Aliases {
		s += " Also " + a.Name + "."
	}
	return s
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

// cell keeps a text within its cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}

// wrap breaks a text into lines of a width, each behind an indent.
func wrap(s string, width int, indent string) string {
	var b strings.Builder
	n := 0
	for _, w := range strings.Fields(s) {
		switch {
		case n == 0:
			b.WriteString(indent)
		case n+1+len(w) > width:
			b.WriteString("\n" + indent)
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(w)
		n += len(w)
	}
	b.WriteByte('\n')
	return b.String()
}
