package dialect

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// field is one member of a request, with its path. Its readers record the first fault, so that a dialect can
// read on and check for a fault once.
type field struct {
	path  string
	value gjson.Result
	fault **Refusal
}

func (f field) refusef(format string, args ...any) {
	if *f.fault == nil {
		*f.fault = Invalid(f.path, "%s: %s", f.path, fmt.Sprintf(format, args...))
	}
}

// members calls do for each member of an object that is not null, in order, so that the later of two members
// with the same name counts, as in most JSON readers.
func members(v gjson.Result, path string, fault **Refusal, do func(name string, f field)) {
	if !v.IsObject() {
		field{path, v, fault}.refusef("want an object")
		return
	}
	v.ForEach(func(k, v gjson.Result) bool {
		if v.Type != gjson.Null {
			name := k.Str
			if path != "" {
				name = path + "." + k.Str
			}
			do(k.Str, field{name, v, fault})
		}
		return *fault == nil
	})
}

func (f field) members(do func(name string, f field)) { members(f.value, f.path, f.fault, do) }

func (f field) each(do func(f field)) {
	if !f.value.IsArray() {
		f.refusef("want a list")
		return
	}
	i := 0
	f.value.ForEach(func(_, v gjson.Result) bool {
		do(field{f.path + "[" + strconv.Itoa(i) + "]", v, f.fault})
		i++
		return *f.fault == nil
	})
}

// of is like get, but rejects a value that is not an object.
func (f field) of(name string) field {
	if !f.value.IsObject() {
		f.refusef("want an object")
	}
	return f.get(name)
}

// get returns a member. A missing or null member does not exist.
func (f field) get(name string) field {
	v := f.value.Get(name)
	if v.Type == gjson.Null {
		v = gjson.Result{}
	}
	return field{f.path + "." + name, v, f.fault}
}

func (f field) exists() bool { return f.value.Exists() }

func (f field) text() string {
	if f.value.Type != gjson.String {
		f.refusef("want a string")
		return ""
	}
	return f.value.Str
}

func (f field) optional() string {
	if !f.exists() {
		return ""
	}
	return f.text()
}

func (f field) number() *float64 {
	if f.value.Type != gjson.Number {
		f.refusef("want a number")
		return nil
	}
	if math.IsInf(f.value.Num, 0) {
		f.refusef("is no number that can be sent")
		return nil
	}
	return new(f.value.Num)
}

func (f field) integer() *int {
	n, err := strconv.Atoi(f.value.Raw) // exact for 64 bits; a float has only 53
	if err != nil {
		n = int(f.value.Num)
	}
	if f.value.Type != gjson.Number || float64(n) != f.value.Num || n == math.MinInt {
		f.refusef("want a whole number")
		return nil
	}
	return &n
}

func (f field) positive() *int {
	n := f.integer()
	if n != nil && *n < 1 {
		f.refusef("is %d: want at least 1", *n)
	}
	return n
}

func (f field) truth() bool {
	if !f.exists() {
		return false
	}
	if !f.value.IsBool() {
		f.refusef("want true or false")
		return false
	}
	return f.value.Bool()
}

func (f field) raw() json.RawMessage { return json.RawMessage(f.value.Raw) }

func (f field) words() (list []string) {
	f.each(func(f field) { list = append(list, f.text()) })
	return list
}

// keepExtra keeps an unknown field for models of the dialect.
func keepExtra(p *middleware.Params, d middleware.Dialect, name string, f field) {
	if p.Extra == nil {
		p.Extra, p.Dialect = map[string]json.RawMessage{}, d
	}
	p.Extra[name] = f.raw()
}

// rawTool keeps a tool that langchaingo has no type for.
func rawTool(p *middleware.Params, d middleware.Dialect, f field) {
	p.RawTools, p.Dialect = append(p.RawTools, f.raw()), d
}

func (f field) image(url, detail string) llms.ContentPart {
	if url == "" {
		f.refusef("an image without a URL")
	}
	return llms.ImageURLWithDetailPart(url, detail)
}

// decodeData decodes a data: URL, or base64, whose media type is then fallback.
func (f field) decodeData(fallback string) (mime string, data []byte) {
	text := f.text()
	if strings.HasPrefix(text, "data:") {
		mime, data, ok := parseDataURL(text)
		if !ok {
			f.refusef("a data: URL that is not base64")
		}
		return mime, data
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		f.refusef("not base64")
	}
	return fallback, data
}

func appendString(buf []byte, s string) []byte { return gjson.AppendJSONString(buf, s) }

func appendNullable(buf []byte, s string) []byte {
	if s == "" {
		return append(buf, "null"...)
	}
	return appendString(buf, s)
}

// content reads a message's content. It appends a string to parts, and calls part for each element of a list.
func (f field) content(parts *[]llms.ContentPart, part func(f field)) {
	switch {
	case !f.exists():
	case f.value.Type == gjson.String:
		*parts = append(*parts, llms.TextContent{Text: f.value.Str})
	case !f.value.IsArray():
		f.refusef("neither text nor a list of parts")
	default:
		f.each(part)
	}
}

// newResult returns the result of a tool, without its parts if the only part is the text.
func newResult(r llms.ToolCallResponse, parts []llms.ContentPart, failed bool) llms.ContentPart {
	text, isText := textOf(parts, "\n")
	if r.Content += text; isText && len(parts) <= 1 {
		parts = nil
	}
	if failed || parts != nil {
		return middleware.ResultPart{ToolCallResponse: r, Failed: failed, Parts: parts}
	}
	return r
}

// separatorAfter returns the separator for joining the texts of a message. It is empty for a model, whose
// sentences can continue in the next text with another citation.
func separatorAfter(role llms.ChatMessageType) string {
	if own, err := roleOf(role); err == nil && own == llms.ChatMessageTypeAI {
		return ""
	}
	return "\n"
}

// textOf joins the texts of parts, and reports whether all parts are plain texts.
func textOf(parts []llms.ContentPart, between string) (text string, only bool) {
	var texts []string
	only = true
	for _, p := range parts {
		_, plain := p.(llms.TextContent)
		only = only && plain
		p, _ = unwrap(p)
		if raw, ok := p.(middleware.RawPart); ok {
			p = raw.Instead
		}
		if t, _ := p.(llms.TextContent); t.Text != "" {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, between), only
}
