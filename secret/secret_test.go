package secret

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hidden = "S3cr3t-Zq9"

func resolve(t *testing.T, r Ref) Value {
	t.Helper()
	v, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestReferencesResolve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(hidden+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET_TEST_USER", "app")
	parsed, err := Parse(`org.apache.kafka required username="${env:SECRET_TEST_USER}" password="${file:` + path + `}";`)
	if err != nil {
		t.Fatal(err)
	}
	for want, ref := range map[string]Ref{
		"app":  Env("SECRET_TEST_USER"),
		hidden: File(path),
		"":     "",
		`org.apache.kafka required username="app" password="` + hidden + `";`: parsed,
		"plain ${env:X}": Literal("plain ${env:X}"),
	} {
		if got := resolve(t, ref).Reveal(); got != want {
			t.Errorf("%s resolves to %q, want %q", ref, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"${X}":               "holds ${X}, which is no reference; write ${env:X}",
		"a ${env:X":          "holds a reference that is not closed; write ${env:X} or ${file:/path}",
		"${env:}":            "holds ${env:...} without the name of a variable",
		"${env:A B}":         "holds ${env:...} without the name of a variable",
		"${file:rel/path}":   "holds ${file:...} without an absolute path, which a worker needs",
		"${vault:x}":         "holds a reference of an unknown kind; write ${env:X} or ${file:/path}",
		"${literal:1234}":    "holds ${literal:...}, which only this program can make; use ${env:X} or ${file:/path}",
		"x${" + hidden + "}": "holds ${...} that is no reference; write ${env:X} or ${file:/path}",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	r, err := Parse(hidden)
	if err != nil || resolve(t, r).Reveal() != hidden || strings.Contains(string(r), hidden) {
		t.Errorf("text without a reference: %q, %v", string(r), err)
	}
}

func TestParseURLHidesThePassword(t *testing.T) {
	for text, visible := range map[string]string{
		"amqps://app:" + hidden + "@host:5671/q?x=1": "amqps://app:*@host:5671/q?x=1",
		"amqps://app:a%40b%3A" + hidden + "@host":    "amqps://app:*@host",
		"amqps://app:a:" + hidden + "@host":          "amqps://app:*@host",
		"amqps://app@host":                           "amqps://app@host",
		"amqps://host/p@th:1":                        "amqps://host/p@th:1",
		"amqps://app:${env:P}@host":                  "amqps://app:${env:P}@host",
	} {
		r, err := ParseURL(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		parts, _ := split(string(r))
		var b strings.Builder
		for _, p := range parts {
			switch p.kind {
			case "":
				b.WriteString(p.text)
			case "literal":
				b.WriteString("*")
			default:
				b.WriteString(p.String())
			}
		}
		if b.String() != visible {
			t.Errorf("%q shows %q, want %q", text, b.String(), visible)
		}
		if strings.Contains(visible, "*") && resolve(t, r).Reveal() != text {
			t.Errorf("%q does not resolve to itself", text)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%q does not travel: %v", text, err)
		}
	}
	if _, err := ParseURL("ht tp://app:" + hidden + "@h"); err == nil || strings.Contains(err.Error(), hidden) {
		t.Errorf("no URL: %v", err)
	}
}

func TestResolveErrorsNameTheReference(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[Ref]string{
		Env("SECRET_TEST_UNSET"):     "${env:SECRET_TEST_UNSET}: the variable is not set",
		File(dir + "/absent"):        "/absent}: ",
		File(empty):                  "the file is empty",
		File(dir):                    "it is not a file",
		Ref("${literal:0123456789}"): "it belongs to another process",
	} {
		if _, err := ref.Resolve(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
	if _, err := File(dir + "/absent").Resolve(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Env("PATH").Resolve(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestVersionFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	versions := map[string]string{}
	for _, content := range []string{"one", "two", "one"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		v := resolve(t, File(path))
		if v.Reveal() != content {
			t.Errorf("%q was read, want %q", v.Reveal(), content)
		}
		if old := versions[content]; old != "" && old != v.Version() {
			t.Error("the same value has two versions")
		}
		versions[content] = v.Version()
	}
	if versions["one"] == versions["two"] {
		t.Error("two values have one version")
	}
}

func TestLiteralsAreForPrism(t *testing.T) {
	lit := Literal(hidden)
	if lit != Literal(hidden) || lit == Literal("other") {
		t.Error("handles do not stand for values")
	}
	for _, runner := range []string{"prism", "PrismRunner", ""} {
		if err := CheckRunner(runner, lit); err != nil {
			t.Errorf("%q: %v", runner, err)
		}
	}
	url, _ := ParseURL("amqp://u:" + hidden + "@h")
	for _, r := range []Ref{lit, url, Ref(hidden)} {
		for _, runner := range []string{"flink", "dataflow", "universal", "DataflowRunner"} {
			err := CheckRunner(runner, Env("A"), r)
			if !errors.Is(err, ErrLiteral) || !strings.Contains(err.Error(), runner) {
				t.Errorf("%s on %s: %v", r, runner, err)
			}
		}
	}
	if err := CheckRunner("flink", Env("A"), File("/f"), "x ${env:A}", "amqp://h", ""); err != nil {
		t.Errorf("references: %v", err)
	}
}

// TestNothingLeaks writes every kind of credential in every way there is, and
// looks for it in all that was written.
func TestNothingLeaks(t *testing.T) {
	t.Setenv("SECRET_TEST_P", hidden)
	url, err := ParseURL("amqp://u:" + hidden + "@h")
	if err != nil {
		t.Fatal(err)
	}
	type outer struct {
		Ref   Ref
		Value Value
		inner struct {
			ref   Ref
			value Value
		}
	}
	var out bytes.Buffer
	text := slog.New(slog.NewTextHandler(&out, nil))
	js := slog.New(slog.NewJSONHandler(&out, nil))
	for _, r := range []Ref{Literal(hidden), Env("SECRET_TEST_P"), url} {
		v := resolve(t, r)
		o := outer{Ref: r, Value: v}
		o.inner.ref, o.inner.value = r, v
		for _, x := range []any{r, &r, v, &v, o, &o, []Ref{r}, map[string]Value{"v": v}, literals.values} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T", "%08.3f"} {
				fmt.Fprintf(&out, verb+"\n", x)
			}
			text.Info("m", "x", x)
			js.Info("m", "x", x)
			b, err := json.Marshal(x)
			fmt.Fprintln(&out, string(b), err)
		}
		var red Redactor
		red.Add(v)
		fmt.Fprintf(&out, "%v %+v", red.Error(fmt.Errorf("dialing %s", v.Reveal())), &red)
	}
	// A credential written out where a Ref is wanted is not shown either.
	bare := Ref(hidden)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", bare)
	}
	js.Info("m", "bare", bare)
	b, err := json.Marshal(struct{ R Ref }{bare})
	fmt.Fprintln(&out, string(b), err)
	if err == nil {
		t.Error("a credential written out travels")
	}
	for _, form := range forms(hidden) {
		if strings.Contains(out.String(), form) {
			i := strings.Index(out.String(), form)
			t.Errorf("%q is shown: ...%s", form, out.String()[max(0, i-80):i+20])
		}
	}
	if strings.Contains(out.String(), fmt.Sprintf("%x", hidden)) {
		t.Error("shown in hexadecimal")
	}
	for _, want := range []string{"${env:SECRET_TEST_P}", "[secret literal]", "dialing ***"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown, which it should", want)
		}
	}
}

func TestRefsTravel(t *testing.T) {
	in := struct{ A, B, C Ref }{Env("X"), Literal("one"), ""}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := in
	out.A, out.B = "", ""
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("%s came back as %q %q, %v", b, string(out.A), string(out.B), err)
	}
	if resolve(t, out.B).Reveal() != "one" {
		t.Error("the literal is lost on the way")
	}
}

func TestMask(t *testing.T) {
	v := func(s string) Value { return newValue(s) }
	for _, c := range []struct {
		text   string
		values []Value
		want   string
	}{
		{"dial amqp://u:p%40ss+word@h: no", []Value{v("p@ss+word")}, "dial amqp://u:***@h: no"},
		{`bad "a\"bcd\n"`, []Value{v("a\"bcd\n")}, `bad "***"`},
		{"auth UzNjcjN0LVpxOQ==", []Value{v(hidden)}, "auth ***"},
		{"abcdef and abcd", []Value{v("abcd"), v("abcdef")}, "*** and ***"},
		{"a bad password: a", []Value{v("a")}, "*** bad password: ***"},
		{"nothing", []Value{v(""), {}}, "nothing"},
	} {
		if got := Mask(c.text, c.values...); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
		}
	}
	var r Redactor
	r.Add(v(hidden))
	cause := errors.New("wrong password " + hidden)
	if err := r.Error(fmt.Errorf("opening: %w", cause)); err.Error() != "opening: wrong password ***" || !errors.Is(err, cause) {
		t.Errorf("masked error: %v", err)
	}
	if other := errors.New("closed"); r.Error(other) != other || r.Error(nil) != nil {
		t.Error("an error without a secret is changed")
	}
}

func TestLooksSecret(t *testing.T) {
	for _, key := range []string{
		"password", "kafka.ssl.key.password", "sasl.jaas.config", "clientSecret", "oauth.token", "SSL_KEY_STORE_PASSWORD",
		"ssl.keystore.key", "solace.access-token", "credentials", "passwordProfile", "apiKey", "aws.secret.access.key",
	} {
		if !LooksSecret(key) {
			t.Errorf("%s does not look secret", key)
		}
	}
	for _, key := range []string{
		"", "key.serializer", "key", "topic", "token.refresh.interval", "token.fetch.timeout", "access-token.source",
		"credentialsFile", "ssl.keystore.location", "sasl.oauthbearer.token.endpoint.url", "keystore.type", "bootstrap.servers",
	} {
		if LooksSecret(key) {
			t.Errorf("%s looks secret", key)
		}
	}
}

func FuzzRef(f *testing.F) {
	for _, s := range []string{"", "${env:PATH}", "a${file:/x}b", "${X}", "${env:X", "$${}", "${literal:00}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		if b, err := r.MarshalText(); err != nil && s != "" {
			t.Errorf("%q parses and does not travel: %q, %v", s, b, err)
		}
		if r.literal() && s != "" && resolve(t, r).Reveal() != s {
			t.Errorf("the literal %q is changed", s)
		}
	})
}
