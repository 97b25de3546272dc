package bridge

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const masked = "***"

// secretName matches names whose values are secrets in any system.
var secretName = regexp.MustCompile(`(?i)password|passwd|secret|token|jaas|credential|private|keystore\.key|api[._-]?key|sasl`)

// notSecret are names that secretName matches although they hold no secret:
// paths, endpoints and lengths of time.
var notSecret = regexp.MustCompile(`(?i)(file|path|url|uri|interval|timeout|\.type|serializer|endpoint)$`)

// reference is a value that only points to a secret.
var reference = regexp.MustCompile(`^\$\{(env|file):[^}]*\}$`)

// userInfo is the user:password part of an address inside a value.
var userInfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s]*@`)

// mask is what may be shown of an option's value.
func mask(sys *System, name, value string) string {
	switch {
	case reference.MatchString(value):
		return value
	case sys == nil, sys.Secret(name), secretName.MatchString(name) && !notSecret.MatchString(name):
		return masked
	}
	return maskAddress(value)
}

// maskAddress hides users and passwords within addresses, also in lists of them.
func maskAddress(value string) string {
	return userInfo.ReplaceAllStringFunc(value, func(part string) string {
		scheme, _, _ := strings.Cut(part, "://")
		u, err := url.Parse(strings.TrimSuffix(part, "@") + "@h")
		if err == nil && reference.MatchString(u.User.String()) {
			return part
		}
		return scheme + "://" + masked + "@"
	})
}

func (e Endpoint) masked(where string) *shownEndpoint {
	if e.System == "" && len(e.Options) == 0 {
		return nil
	}
	sys, _ := find(where, e.System) // an unknown system shows no value at all
	shown := &shownEndpoint{System: e.System, Options: map[string]string{}}
	for name, value := range e.Options {
		shown.Options[name] = mask(sys, name, value)
	}
	return shown
}

type shownEndpoint struct {
	System  string            `yaml:"system"`
	Options map[string]string `yaml:"options,omitempty"`
}

// Shown is the configuration as a bridge.yaml, secrets masked.
func (c *Config) Shown() string {
	onFailure, interval, level := c.OnFailure, c.Interval, c.LogLevel
	if onFailure == "" && c.DeadLetter.System == "" {
		onFailure = OnFailureStop
	}
	if interval == 0 {
		interval = defaultInterval
	}
	if level == "" {
		level = "warn"
	}
	flags := map[string]string{"runner": c.runner()}
	for _, name := range slices.Sorted(maps.Keys(c.Runner)) {
		flags[name] = maskAddress(c.Runner[name])
		if secretName.MatchString(name) {
			flags[name] = masked
		}
	}
	out, err := yaml.Marshal(struct {
		From       *shownEndpoint    `yaml:"from,omitempty"`
		To         *shownEndpoint    `yaml:"to,omitempty"`
		DeadLetter *shownEndpoint    `yaml:"deadLetter,omitempty"`
		OnFailure  string            `yaml:"onFailure,omitempty"`
		HTTP       string            `yaml:"http,omitempty"`
		Interval   string            `yaml:"interval"`
		LogLevel   string            `yaml:"logLevel"`
		Runner     map[string]string `yaml:"runner"`
	}{
		c.From.masked("from"), c.To.masked("to"), c.DeadLetter.masked("dead-letter"),
		onFailure, c.HTTP, interval.String(), level, flags,
	})
	if err != nil {
		return fmt.Sprintf("# %v\n", err)
	}
	return string(out)
}
