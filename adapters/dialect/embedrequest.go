package dialect

import "github.com/tidwall/gjson"

// ReadEmbedding checks a request for embeddings. Fields that it does not know go on as they are.
func ReadEmbedding(body gjson.Result) (a *Request, fault *Refusal) {
	a = &Request{}
	given := false
	members(body, "", &fault, func(name string, f field) {
		switch name {
		case "model":
			a.Model = f.text()
		case "input":
			given = true
			f.texts()
		case "encoding_format":
			if kind := f.text(); kind != "float" && kind != "base64" {
				f.refusef("is %q: want float or base64", kind)
			}
		case "dimensions":
			f.positive()
		case "user":
			f.text()
		case "stream":
			if f.truth() {
				f.refusef("embeddings are not streamed")
			}
		}
	})
	if fault == nil && !given {
		fault = Invalid("input", "input: there is none")
	}
	return a, fault
}

// texts checks what is to be embedded: a text, or a list of texts, of tokens, or of lists
// of tokens.
func (f field) texts() {
	if f.value.Type == gjson.String {
		return
	}
	if !f.value.IsArray() {
		f.refusef("want a text, a list of texts, or tokens")
		return
	}
	kind, some := gjson.Null, false
	f.each(func(f field) {
		if some && f.value.Type != kind || f.value.Type != gjson.String && f.value.Type != gjson.Number && !f.value.IsArray() {
			f.refusef("want a text, or a token, as the others")
			return
		}
		kind, some = f.value.Type, true
		switch {
		case kind == gjson.Number:
			f.whole()
		case f.value.IsArray():
			f.each(func(f field) { f.whole() })
		}
	})
	if !some {
		f.refusef("is empty")
	}
}
