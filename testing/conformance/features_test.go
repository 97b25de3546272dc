package conformance

import (
	"strings"
	"testing"
)

func table(off map[Feature]string) Features {
	return Features{Connector: "c", Broker: "b", Command: "go test", Off: off}
}

func TestFeaturesAreSwitchedOffWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		f    Features
		says string
	}{
		"all on":        {table(nil), ""},
		"with a reason": {table(map[Feature]string{Poison: "it decodes nothing"}), ""},
		"no reason":     {table(map[Feature]string{Poison: "todo"}), `"poison message" is switched off without a reason`},
		"misspelt":      {table(map[Feature]string{"poisson": "it decodes nothing"}), `"poisson" is no feature`},
		"no names":      {Features{}, "must be named"},
	} {
		err := c.f.Validate()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestEachFeatureHasOneCheck(t *testing.T) {
	seen := map[Feature]bool{}
	for _, c := range checks {
		if seen[c.feature] || c.run == nil || c.proves == "" {
			t.Errorf("feature %q is there twice, or without a check", c.feature)
		}
		seen[c.feature] = true
	}
}

func TestDocumentShowsWhatIsOff(t *testing.T) {
	text := Document(table(nil), table(map[Feature]string{Drain: "it cannot be drained"}))
	for _, want := range []string{"| restart | ", " yes | yes |\n", "yes | no |\n", "- drain: it cannot be drained\n", "2. c on b: `go test`"} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q", want)
		}
	}
	if n := strings.Count(text, "\n## Not tested"); n != 1 {
		t.Errorf("%d lists of what is not tested, want 1", n)
	}
}

func TestCompareFindsWhatIsMissingAndDouble(t *testing.T) {
	a, b, c := Message{Body: []byte("a")}, Message{Body: []byte("b")}, Message{Key: "c"}
	for _, x := range []struct {
		want, got     []Message
		missing, more int
	}{
		{[]Message{a, b, b}, []Message{b, a, b}, 0, 0},
		{[]Message{a, b, b}, []Message{b, a}, 1, 0},
		{[]Message{a}, []Message{a, a, c}, 0, 2},
		{odd(), odd(), 0, 0},
		{[]Message{{Attributes: map[string]string{"k": ""}}}, []Message{{}}, 1, 1},
		{[]Message{{Attributes: map[string]string{}}}, []Message{{Body: []byte{}}}, 0, 0},
	} {
		if missing, more := compare(x.want, x.got); missing != x.missing || more != x.more {
			t.Errorf("%v of %v: missing %d, more %d", x.got, x.want, missing, more)
		}
	}
}
