package options

import (
	"math"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	sec := Units{Bare: time.Second}
	cases := []struct {
		text  string
		units Units
		want  time.Duration
		err   string
	}{
		{"90", sec, 90 * time.Second, ""},
		{" 90 s ", sec, 90 * time.Second, ""},
		{"1.5m", sec, 90 * time.Second, ""},
		{"250MS", sec, 250 * time.Millisecond, ""},
		{"0", sec, 0, ""},
		{"0.1s", sec, 100 * time.Millisecond, ""},
		{"60 second", sec, time.Minute, ""},
		{"2h", sec, 0, `has the unknown unit "h"`},
		{"2h", Units{Bare: time.Second, Hours: true}, 2 * time.Hour, ""},
		{"15", Units{Hours: true}, 0, "needs a unit"},
		{"15m", Units{Hours: true}, 15 * time.Minute, ""},
		{"3000", Units{Bare: time.Millisecond}, 3 * time.Second, ""},
		{"-1s", sec, 0, "is negative"},
		{"-0.5", sec, 0, "is negative"},
		{"", sec, 0, "is not a number with a unit"},
		{"s", sec, 0, "is not a number with a unit"},
		{"1m30s", sec, 0, "is not a number with a unit"},
		{"1e3", sec, 0, "is not a number with a unit"},
		{"Inf", sec, 0, `has the unknown unit "inf"`},
		{"1.2.3", sec, 0, "is not a number with a unit"},
		{"9223372036854775807", sec, 0, "is too large"},
		{"99999999999999999999999", sec, 0, "is too large"},
	}
	for _, c := range cases {
		got, err := ParseDuration(c.text, c.units)
		check(t, c.text, got, c.want, err, c.err)
	}
}

func check[T comparable](t *testing.T, text string, got, want T, err error, wantErr string) {
	t.Helper()
	switch {
	case err == nil && wantErr != "":
		t.Errorf("%q gives %v, want the error %q", text, got, wantErr)
	case err != nil && err.Error() != wantErr:
		t.Errorf("%q: %v, want %q", text, err, wantErr)
	case err == nil && got != want:
		t.Errorf("%q gives %v, want %v", text, got, want)
	}
}

func TestParseSize(t *testing.T) {
	cases := []struct {
		text string
		want int64
		err  string
	}{
		{"0", 0, ""},
		{"17", 17, ""},
		{"64m", 64 << 20, ""},
		{"64 MB", 64 << 20, ""},
		{"1.5k", 1536, ""},
		{"2G", 2 << 30, ""},
		{"1t", 0, `has the unknown unit "t"`},
		{"9223372036854775807", math.MaxInt64, ""},
		{"9223372036854775807k", 0, "is too large"},
		{"8589934592g", 0, "is too large"},
		{"-1", 0, "is negative"},
		{"m", 0, "is not a number with a unit"},
	}
	for _, c := range cases {
		got, err := ParseSize(c.text)
		check(t, c.text, got, c.want, err, c.err)
	}
}

func TestParseInstant(t *testing.T) {
	utc := time.Date(2024, 8, 7, 15, 0, 29, 28e6, time.UTC)
	cases := map[string]time.Time{
		"2024-08-07T12:00:29.028-03:00": utc,
		"2024-08-07T12:00:29.028-0300":  utc,
		"2024-08-07T15:00:29.028Z":      utc,
		"2024-08-07T15:00:29.028":       utc,
		"2024-08-07 15:00:29.028":       utc,
		"2024-08-07T15:00":              utc.Truncate(time.Minute),
		"2024-08-07":                    time.Date(2024, 8, 7, 0, 0, 0, 0, time.UTC),
	}
	for text, want := range cases {
		got, err := ParseInstant(text)
		check(t, text, got, want, err, "")
	}
	for _, text := range []string{"", "now", "1723042829", "2024-13-01", "2024-08-07T25:00:00Z", "07.08.2024"} {
		got, err := ParseInstant(text)
		check(t, text, got, time.Time{}, err, "is not an instant")
	}
}

func TestWrittenDurationsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(300*24*time.Hour/time.Microsecond)).Draw(t, "us")) * time.Microsecond
		got, err := ParseDuration(Seconds(d), Units{})
		if err != nil || got != d {
			t.Fatalf("%s is written %q, read %s, %v", d, Seconds(d), got, err)
		}
	})
}

func TestWholeSizesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shift := rapid.SampledFrom([]int{0, 10, 20, 30}).Draw(t, "shift")
		n := rapid.Int64Range(0, math.MaxInt64>>shift).Draw(t, "n")
		unit := map[int]string{0: "", 10: "k", 20: "m", 30: "g"}[shift]
		got, err := ParseSize(strconv.FormatInt(n, 10) + unit)
		if err != nil || got != n<<shift {
			t.Fatalf("%d%s gives %d, %v", n, unit, got, err)
		}
	})
}

func TestInstantsDoNotDependOnTheOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms"))
		zone := time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "minutes"))
		got, err := ParseInstant(at.In(zone).Format(time.RFC3339Nano))
		if err != nil || !got.Equal(at) || got.Location() != time.UTC {
			t.Fatalf("%s gives %s, %v", at.In(zone), got, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"90", "1.5 m", "2h", "-1", "", ".", "1e400s", "0x10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s, Units{Bare: time.Second, Hours: true})
		if err != nil && d != 0 || d < 0 {
			t.Errorf("%q gives %s, %v", s, d, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"64m", "1.5k", "9223372036854775807g", "-0", "..k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil && n != 0 || n < 0 {
			t.Errorf("%q gives %d, %v", s, n, err)
		}
	})
}

func FuzzParseInstant(f *testing.F) {
	for _, s := range []string{"2024-08-07T12:00:29.028-03:00", "2024-08-07 12:00", "2024-08-07", "0000-01-01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseInstant(s)
		if err != nil {
			return
		}
		if again, err := ParseInstant(at.Format(time.RFC3339Nano)); err != nil || !again.Equal(at) {
			t.Errorf("%q gives %s, which gives %s, %v", s, at, again, err)
		}
	})
}
