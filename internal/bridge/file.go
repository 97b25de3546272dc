package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

// fileKeys are the keys of a bridge.yaml.
var fileKeys = []string{"from", "to", "deadLetter", "onFailure", "http", "interval", "logLevel", "runner"}

// readFile reads a bridge.yaml into c. The error joins every mistake; none of
// them shows a value, which may be a secret in the wrong place.
func (c *Config) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return mistake("", "-f: %v", err)
	}
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return mistake("", "-f: %s: is not YAML: %v", path, yamlProblem(err))
	}
	if len(doc.Content) == 0 {
		return mistake("", "-f: %s: is empty", path)
	}
	f := file{path: path}
	f.fields(doc.Content[0], "", func(key string, v *yaml.Node) bool { return c.set(&f, key, v) }, fileKeys)
	return errors.Join(f.errs...)
}

// yamlProblem leaves out what yaml.v3 quotes of the text.
func yamlProblem(err error) string {
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("`"))
	return string(line)
}

// A file collects the mistakes of a bridge.yaml.
type file struct {
	path string
	errs []error
}

func (f *file) wrong(n *yaml.Node, format string, args ...any) {
	f.errs = append(f.errs, mistake("", "%s:%d: %s", f.path, n.Line, fmt.Sprintf(format, args...)))
}

// fields calls set for each key of a mapping; set returns false for a key it
// does not know.
func (f *file) fields(n *yaml.Node, where string, set func(string, *yaml.Node) bool, known []string) {
	if n.Kind != yaml.MappingNode {
		f.wrong(n, "%sis not a mapping", where)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case seen[k.Value]:
			f.wrong(k, "%s: comes twice", k.Value)
		case !set(k.Value, v):
			near := options.Nearest(k.Value, known)
			if near != "" {
				near = ", did you mean " + near + "?"
			}
			f.wrong(k, "%s: is not a key%s", k.Value, near)
		}
		seen[k.Value] = true
	}
}

func (c *Config) set(f *file, key string, v *yaml.Node) bool {
	switch key {
	case "from":
		f.endpoint(v, key, &c.From)
	case "to":
		f.endpoint(v, key, &c.To)
	case "deadLetter":
		f.endpoint(v, key, &c.DeadLetter)
	case "onFailure":
		c.OnFailure = f.scalar(v, key)
	case "http":
		c.HTTP = f.scalar(v, key)
	case "interval":
		d, err := time.ParseDuration(f.scalar(v, key))
		if err != nil {
			f.wrong(v, "interval: is not a duration (legal: 1s or more, with a unit)")
		}
		c.Interval = d
	case "logLevel":
		c.LogLevel = f.scalar(v, key)
	case "runner":
		f.runner(v, c)
	default:
		return false
	}
	return true
}

// runner takes the name of a runner, or a mapping of Beam's flags.
func (f *file) runner(v *yaml.Node, c *Config) {
	flags := map[string]string{}
	if v.Kind == yaml.ScalarNode {
		flags["runner"] = v.Value
	} else {
		flags = f.texts(v, "runner")
	}
	known := beamFlags()
	var names []string
	for name := range known {
		names = append(names, name)
	}
	for name, value := range flags {
		if known[name] == nil {
			near := options.Nearest(name, names)
			if near != "" {
				near = ", did you mean " + near + "?"
			}
			f.wrong(v, "runner: %s: is not a flag of Beam%s", name, near)
			continue
		}
		c.Runner[name] = value
	}
}

func (f *file) endpoint(n *yaml.Node, where string, e *Endpoint) {
	f.fields(n, where+": ", func(key string, v *yaml.Node) bool {
		switch key {
		case "system":
			e.System = f.scalar(v, where+": system")
		case "options":
			for name, value := range f.texts(v, where+": options") {
				e.Options[name] = value
			}
		default:
			return false
		}
		return true
	}, []string{"system", "options"})
}

func (f *file) scalar(v *yaml.Node, key string) string {
	if v.Kind != yaml.ScalarNode {
		f.wrong(v, "%s: is not a single value", key)
		return ""
	}
	return v.Value
}

// texts reads a mapping of names to texts; numbers and booleans stay as they
// are written.
func (f *file) texts(n *yaml.Node, where string) map[string]string {
	m := map[string]string{}
	f.fields(n, where+": ", func(key string, v *yaml.Node) bool {
		m[key] = f.scalar(v, where+": "+key)
		return true
	}, nil)
	return m
}
