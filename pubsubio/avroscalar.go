package pubsubio

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hamba/avro/v2"
)

// scalar reads a value without parts. Its type is that of the schema it is read
// with; the unit of a time and the scale of a decimal are the writer's.
func (f form) scalar(w, r avro.Schema, x any) (Value, error) {
	if logical(r) != "" {
		if v, ok, err := f.logical(w, r, x); ok || err != nil {
			return v, err
		}
	}
	switch r.Type() {
	case avro.Null:
		if x != nil {
			return Value{}, notA("null", x)
		}
		return Value{}, nil
	case avro.Boolean:
		b, ok := x.(bool)
		if !ok {
			return Value{}, notA("boolean", x)
		}
		return Value{Kind: KindBool, Bool: b}, nil
	case avro.Int, avro.Long:
		n, err := integer(x, w.Type())
		return Value{Kind: KindInt, Int: n}, err
	case avro.Float, avro.Double:
		n, err := number(x, w.Type())
		return Value{Kind: KindFloat, Float: n}, err
	case avro.String:
		s, err := f.text(x, w.Type())
		return Value{Kind: KindString, String: s}, err
	case avro.Bytes, avro.Fixed:
		b, err := f.bytes(x, w)
		return Value{Kind: KindBytes, Bytes: b}, err
	}
	return Value{}, fmt.Errorf("has the type %s, which is not known", r.Type())
}

// logical returns the name of a logical type, empty without one.
func logical(s avro.Schema) avro.LogicalType {
	if l, ok := s.(avro.LogicalTypeSchema); ok && l.Logical() != nil {
		return l.Logical().Type()
	}
	return ""
}

// timeUnits are the units of the logical types that count time.
var timeUnits = map[avro.LogicalType]time.Duration{
	avro.TimestampMillis: time.Millisecond, avro.TimestampMicros: time.Microsecond,
	avro.LocalTimestampMillis: time.Millisecond, avro.LocalTimestampMicros: time.Microsecond,
	avro.TimeMillis: time.Millisecond, avro.TimeMicros: time.Microsecond,
}

// logical reads a time, a date or a decimal. It returns false for what is read
// as its plain type.
func (f form) logical(w, r avro.Schema, x any) (v Value, ok bool, err error) {
	kind := logical(r)
	unit := timeUnits[logical(w)]
	if unit == 0 {
		unit = timeUnits[kind]
	}
	switch kind {
	case avro.TimestampMillis, avro.TimestampMicros, avro.LocalTimestampMillis, avro.LocalTimestampMicros:
		t, err := f.timestamp(x, w.Type(), unit)
		return Value{Kind: KindTimestamp, Time: t}, true, err
	case avro.Date:
		t, err := f.date(x)
		return Value{Kind: KindDate, Time: t}, true, err
	case avro.TimeMillis, avro.TimeMicros:
		n, err := integer(x, w.Type())
		if err == nil && (n < 0 || n > int64(24*time.Hour/unit)) {
			err = errors.New("is not a time of the day")
		}
		return Value{Kind: KindTime, Int: n * int64(unit)}, true, err
	case avro.Decimal:
		s, err := f.decimal(w, r, x)
		return Value{Kind: KindDecimal, String: s}, true, err
	}
	return Value{}, false, nil
}

func (f form) timestamp(x any, t avro.Type, unit time.Duration) (time.Time, error) {
	if s, ok := x.(string); ok && f.plain() {
		for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
			if at, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
				return at.UTC(), nil
			}
		}
		return time.Time{}, errors.New("is not a timestamp")
	}
	n, err := integer(x, t)
	if err != nil {
		return time.Time{}, err
	}
	if f == sparkForm {
		unit = time.Second
	}
	per := int64(time.Second / unit)
	sec, rest := n/per, n%per
	if rest < 0 {
		sec, rest = sec-1, rest+per
	}
	return time.Unix(sec, rest*int64(unit)).UTC(), nil
}

func (f form) date(x any) (time.Time, error) {
	if s, ok := x.(string); ok && f.plain() {
		t, err := time.Parse(time.DateOnly, s)
		if err != nil {
			return time.Time{}, errors.New("is not a date")
		}
		return t, nil
	}
	n, err := integer(x, avro.Int)
	return time.Unix(n*int64(24*time.Hour/time.Second), 0).UTC(), err
}

// maxDecimalBytes bounds a decimal: writing its digits takes far longer than
// reading its bytes.
const maxDecimalBytes = 1024

// decimal returns the digits of a decimal with the writer's scale.
func (f form) decimal(w, r avro.Schema, x any) (string, error) {
	by := w
	if logical(w) != avro.Decimal {
		by = r
	}
	d := by.(avro.LogicalTypeSchema).Logical().(*avro.DecimalLogicalSchema)
	if f.plain() {
		return plainDecimal(x, d.Precision(), d.Scale())
	}
	b, err := f.bytes(x, w)
	if err != nil {
		return "", err
	}
	if len(b) > maxDecimalBytes {
		return "", fmt.Errorf("is a decimal of %d bytes, the limit is %d", len(b), maxDecimalBytes)
	}
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	digits, sign := n.String(), ""
	if n.Sign() < 0 {
		digits, sign = digits[1:], "-"
	}
	return sign + point(digits, d.Scale()), nil
}

// point sets the decimal point into digits.
func point(digits string, scale int) string {
	if scale <= 0 {
		return digits
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	return digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// plainDecimal reads a decimal written as a number or text, and brings it to its
// scale.
func plainDecimal(x any, precision, scale int) (string, error) {
	s, ok := x.(string)
	if n, is := x.(json.Number); is {
		s, ok = n.String(), true
	}
	if !ok {
		return "", notA("decimal", x)
	}
	unsigned, negative := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return "", errors.New("is not a decimal number")
	}
	whole = strings.TrimLeft(whole, "0")
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > scale || len(whole)+scale > precision {
		return "", fmt.Errorf("does not fit decimal(%d,%d)", precision, scale)
	}
	digits := whole + fraction + strings.Repeat("0", scale-len(fraction))
	if digits == "" {
		digits = "0"
	}
	if negative {
		return "-" + point(digits, scale), nil
	}
	return point(digits, scale), nil
}

// integer reads a whole number of a type.
func integer(x any, t avro.Type) (int64, error) {
	var n int64
	switch x := x.(type) {
	case int64:
		n = x
	case int:
		n = int64(x)
	case json.Number:
		var err error
		if n, err = strconv.ParseInt(x.String(), 10, 64); err != nil {
			f, ferr := x.Float64()
			// 1e3 and 1.0 are whole too; beyond 2^53 the text is not exact.
			if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return 0, fmt.Errorf("is not a whole number that fits %s", t)
			}
			n = int64(f)
		}
	default:
		return 0, notA(string(t), x)
	}
	if t == avro.Int && (n < math.MinInt32 || n > math.MaxInt32) {
		return 0, errors.New("is not a whole number that fits int")
	}
	return n, nil
}

// number reads a number that may have a fraction. A float is the shortest
// number of its 32 bits: 0.1, not 0.10000000149011612.
func number(x any, t avro.Type) (float64, error) {
	switch x := x.(type) {
	case int64:
		return float64(x), nil
	case int:
		return float64(x), nil
	case float64:
		return x, nil
	case float32:
		return shortest(x), nil
	case json.Number:
		f, err := x.Float64()
		if err != nil {
			return 0, fmt.Errorf("does not fit %s", t)
		}
		if t == avro.Float {
			return shortest(float32(f)), nil
		}
		return f, nil
	case string:
		switch x {
		case "NaN":
			return math.NaN(), nil
		case "Infinity":
			return math.Inf(1), nil
		case "-Infinity":
			return math.Inf(-1), nil
		}
	}
	return 0, notA(string(t), x)
}

func shortest(f float32) float64 {
	d, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil {
		return float64(f)
	}
	return d
}

// text reads a string, or bytes that are one.
func (f form) text(x any, t avro.Type) (string, error) {
	if t == avro.Bytes {
		b, err := f.bytes(x, nil)
		if err == nil && !utf8.Valid(b) {
			err = errors.New("is bytes that are not UTF-8 text")
		}
		return string(b), err
	}
	s, ok := x.(string)
	if !ok {
		return "", notA("string", x)
	}
	return s, nil
}

// bytes reads bytes; w is fixed, bytes or a string, and nil stands for bytes.
func (f form) bytes(x any, w avro.Schema) ([]byte, error) {
	var b []byte
	switch x := x.(type) {
	case []byte:
		b = x
	case string:
		var err error
		switch {
		case w != nil && w.Type() == avro.String:
			b = []byte(x)
		case f.plain():
			if b, err = base64.StdEncoding.DecodeString(x); err != nil {
				return nil, errors.New("is not base64")
			}
		default:
			if b, err = latin1(x); err != nil {
				return nil, err
			}
		}
	default:
		// The default of a fixed is an array of its length.
		v := reflect.ValueOf(x)
		if !v.IsValid() || v.Kind() != reflect.Array || v.Type().Elem().Kind() != reflect.Uint8 {
			return nil, notA("string of bytes", x)
		}
		b = make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
	}
	if fixed, ok := w.(*avro.FixedSchema); ok && len(b) != fixed.Size() {
		return nil, fmt.Errorf("has %d bytes, not %d", len(b), fixed.Size())
	}
	return b, nil
}

// latin1 reads bytes as Avro's JSON encoding has them: a code point is a byte.
func latin1(s string) ([]byte, error) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return nil, errors.New("is not bytes: a code point is over 255")
		}
		b = append(b, byte(r))
	}
	return b, nil
}
