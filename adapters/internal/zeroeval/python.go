package zeroeval

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// The project's scorer is Python, and compares texts; so values are written, and
// fractions worked out, as Python does.

// object is a JSON object, its members in the order in which they are written.
type object []member

type member struct {
	name  string
	value any
}

func (o object) get(name string) (any, bool) {
	for _, m := range o {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

// deepest is how deep values may be nested.
const deepest = 100

var errNested = errors.New("nested too deep")

// decode reads one JSON value; its numbers stay as they are written.
func decode(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	return decodeNext(dec, 0)
}

func decodeNext(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if depth > deepest {
		return nil, errNested
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := decodeNext(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	case json.Delim('{'):
		o := object{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeNext(dec, depth+1)
			if err != nil {
				return nil, err
			}
			o = o.with(name.(string), v)
		}
		_, err := dec.Token()
		return o, err
	}
	return token, nil
}

// with sets a member; one that comes twice keeps its first place and its last value.
func (o object) with(name string, v any) object {
	for i := range o {
		if o[i].name == name {
			o[i].value = v
			return o
		}
	}
	return append(o, member{name, v})
}

// pythonText writes a JSON value as Python's str.
func pythonText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return pythonRepr(v)
}

// pythonRepr writes a JSON value as Python's repr.
func pythonRepr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") {
			if n, ok := new(big.Int).SetString(string(v), 10); ok {
				return n.String()
			}
		}
		f, _ := v.Float64() // beyond the range it is infinite, as in Python
		return pythonFloat(f)
	case string:
		return quoted(v)
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = pythonRepr(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case object:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = quoted(m.name) + ": " + pythonRepr(m.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return ""
}

// quoted writes a text in quotes: single ones, unless it has those and no double ones.
func quoted(s string) string {
	quote := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = `"`
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\' || string(r) == quote:
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\x` + strconv.FormatInt(int64(r)+0x100, 16)[1:])
		case !unicode.IsPrint(r) && r < 0x10000:
			b.WriteString(`\u` + strconv.FormatInt(int64(r)+0x10000, 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	return quote + b.String() + quote
}

// pythonFloat writes a float as Python does: the shortest digits that tell it from all
// others, with an exponent below 1e-4 and from 1e16 on.
func pythonFloat(v float64) string {
	switch size := math.Abs(v); {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// evaluate works out sums, products and powers of numbers, as in "3/4" or "(2+1)*5/2".
func evaluate(s string) (float64, bool) {
	e := &expression{rest: strings.TrimSpace(s)}
	v := e.sum()
	return v, !e.wrong && e.rest == "" && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// expression is what is left to read of one.
type expression struct {
	rest  string
	wrong bool
	depth int
}

// take reads one of the operators, the longest first.
func (e *expression) take(operators ...string) string {
	e.rest = strings.TrimLeft(e.rest, " \t")
	for _, op := range operators {
		if after, found := strings.CutPrefix(e.rest, op); found {
			e.rest = after
			return op
		}
	}
	return ""
}

func (e *expression) sum() float64 {
	v := e.product()
	for !e.wrong {
		switch e.take("+", "-") {
		case "+":
			v += e.product()
		case "-":
			v -= e.product()
		default:
			return v
		}
	}
	return v
}

func (e *expression) product() float64 {
	v := e.signed()
	for !e.wrong && !strings.HasPrefix(strings.TrimLeft(e.rest, " \t"), "**") {
		op := e.take("*", "//", "/", "%")
		if op == "" {
			return v
		}
		by := e.signed()
		e.wrong = e.wrong || (op != "*" && by == 0)
		switch op {
		case "*":
			v *= by
		case "/":
			v /= by
		case "//":
			v = math.Floor(v / by)
		case "%":
			v -= by * math.Floor(v/by)
		}
	}
	return v
}

func (e *expression) signed() float64 {
	if e.depth++; e.depth > 100 {
		e.wrong = true
	}
	defer func() { e.depth-- }()
	if e.wrong {
		return 0
	}
	switch e.take("+", "-") {
	case "+":
		return e.signed()
	case "-":
		return -e.signed()
	}
	v := e.number()
	if e.take("**") != "" {
		return math.Pow(v, e.signed())
	}
	return v
}

// number reads a number, or a sum in parentheses.
func (e *expression) number() float64 {
	if e.take("(") != "" {
		v := e.sum()
		e.wrong = e.wrong || e.take(")") == ""
		return v
	}
	e.rest = strings.TrimLeft(e.rest, " \t")
	n := 0
	for n < len(e.rest) && (e.rest[n] == '.' || '0' <= e.rest[n] && e.rest[n] <= '9') {
		n++
	}
	text := e.rest[:n]
	e.rest = e.rest[n:]
	v, err := strconv.ParseFloat(text, 64)
	// Python takes no whole number with noughts before it.
	padded := len(text) > 1 && text[0] == '0' && !strings.Contains(text, ".") && strings.Trim(text, "0") != ""
	e.wrong = e.wrong || err != nil || padded
	return v
}
