package options

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Units says what a duration may be written with.
type Units struct {
	// Bare is the unit of a number without one; 0 refuses it.
	Bare time.Duration
	// Hours allows h beside ms, s and m.
	Hours bool
}

// Spoken returns the units as the documents write them.
func (u Units) Spoken() string {
	s := "ms, s, m"
	if u.Hours {
		s += ", h"
	}
	switch u.Bare {
	case 0:
		return "a number with " + s
	case time.Millisecond:
		return "a number of milliseconds, or with " + s
	}
	return "a number of seconds, or with " + s
}

var errNumber = errors.New("is not a number with a unit")

// ParseDuration reads one number and one unit, like "90s" or "1.5 m". It takes
// no sums ("1m30s"): the documents have none.
func ParseDuration(text string, u Units) (time.Duration, error) {
	number, unit := splitUnit(text)
	scale := time.Duration(0)
	switch unit {
	case "":
		if u.Bare == 0 {
			return 0, errors.New("needs a unit")
		}
		scale = u.Bare
	case "ms":
		scale = time.Millisecond
	case "s", "sec", "second", "seconds":
		scale = time.Second
	case "m", "min", "minute", "minutes":
		scale = time.Minute
	case "h", "hour", "hours":
		if u.Hours {
			scale = time.Hour
		}
	}
	if scale == 0 {
		return 0, fmt.Errorf("has the unknown unit %q", shorten(unit))
	}
	n, err := scaled(number, int64(scale))
	return time.Duration(n), err
}

// ParseSize reads a number of bytes, or one with k, m or g (also kb, mb, gb),
// which are powers of 1024.
func ParseSize(text string) (int64, error) {
	number, unit := splitUnit(text)
	scale := int64(0)
	switch unit {
	case "", "b":
		scale = 1
	case "k", "kb", "kib":
		scale = 1 << 10
	case "m", "mb", "mib":
		scale = 1 << 20
	case "g", "gb", "gib":
		scale = 1 << 30
	}
	if scale == 0 {
		return 0, fmt.Errorf("has the unknown unit %q", shorten(unit))
	}
	return scaled(number, scale)
}

// splitUnit parts "64 MB" into "64" and "mb".
func splitUnit(text string) (number, unit string) {
	text = strings.ToLower(strings.TrimSpace(text))
	i := strings.LastIndexAny(text, "0123456789.") + 1
	return text[:i], strings.TrimSpace(text[i:])
}

// scaled multiplies a plain decimal number with a scale. Whole numbers are
// exact; others are rounded.
func scaled(number string, scale int64) (int64, error) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 {
			return 0, errors.New("is negative")
		}
		if n > math.MaxInt64/scale {
			return 0, errors.New("is too large")
		}
		return n * scale, nil
	}
	if number == "" || strings.Trim(strings.TrimPrefix(number, "-"), "0123456789.") != "" {
		return 0, errNumber
	}
	// Exactly, not as a float: what is written out has to be read back.
	r, ok := new(big.Rat).SetString(number)
	if !ok || len(number) > maxNumber {
		return 0, errNumber
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	switch {
	case r.Sign() < 0:
		return 0, errors.New("is negative")
	case r.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) >= 0:
		return 0, errors.New("is too large")
	}
	// Rounded to the nearest: (2 a + b) / 2 b for a fraction a / b.
	twice := new(big.Int).Lsh(r.Num(), 1)
	twice.Add(twice, r.Denom())
	return twice.Div(twice, new(big.Int).Lsh(r.Denom(), 1)).Int64(), nil
}

// maxNumber bounds the digits of a number with a fraction.
const maxNumber = 64

// instants are the layouts of an instant, offset first. A fraction of a second
// is taken by each.
var instants = []string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04",
	"2006-01-02",
}

// ParseInstant reads a date, or a date and time with T or a blank between
// them, in UTC unless it has an offset.
func ParseInstant(text string) (time.Time, error) {
	s := strings.TrimSpace(text)
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	for _, layout := range instants {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errors.New("is not an instant")
}

// InstantForm says how an instant is written.
const InstantForm = "2024-08-07T15:12:29Z, or with an offset: 2024-08-07T12:12:29-03:00"

// Seconds writes a duration the way the options take it.
func Seconds(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms"
}
