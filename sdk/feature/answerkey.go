package feature

import (
	"encoding/json"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// SignalAgreement names the answer signal that says how many of the step's earlier
// answers say the same, as a share: see [AnswerKey]. The first answer of a step has none.
const SignalAgreement = "agreement"

// AnswerKey returns an answer in the form in which two of them are compared: the
// tool calls with their arguments in a canonical form, if there are any; the field
// "answer" of an answer that is a JSON object; what stands in the last \boxed{};
// what follows the last "answer:" on its line; else the whole text. Letter case,
// white space, and a closing full stop do not count. The key of a text that is a key
// is that text.
func AnswerKey(a *sdk.Answer) string {
	if len(a.ToolCalls) > 0 {
		var key strings.Builder
		for _, call := range a.ToolCalls {
			key.WriteString(call.Name + "(" + canonicalJSON(call.Arguments) + ")\n")
		}
		return key.String()
	}
	key := a.Text
	for range deepestAnswer {
		inner := canonicalText(finalAnswer(key))
		if inner == key {
			break
		}
		key = inner
	}
	return key
}

// deepestAnswer bounds how often an answer is looked for within an answer.
const deepestAnswer = 32

func finalAnswer(text string) string {
	if object, ok := jsonObject(text); ok {
		if v, has := object["answer"]; has {
			var s string
			if json.Unmarshal(v, &s) == nil {
				return s
			}
			return string(v)
		}
	}
	if i := strings.LastIndex(text, `\boxed{`); i >= 0 {
		return balanced(text[i+len(`\boxed{`):])
	}
	if i := afterLast(text, "answer:"); i >= 0 {
		line, _, _ := strings.Cut(text[i:], "\n")
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return text
}

// afterLast returns where the last occurrence of an ASCII mark ends in a text, letter
// case not counted, or -1. It does not change the case of the text, since that can
// change its length.
func afterLast(text, mark string) int {
	for end := len(text); end >= len(mark); end-- {
		if strings.EqualFold(text[end-len(mark):end], mark) {
			return end
		}
	}
	return -1
}

// jsonObject returns the object that a text is, a code fence around it not counted.
func jsonObject(text string) (map[string]json.RawMessage, bool) {
	text = strings.TrimSpace(text)
	text = strings.TrimPrefix(text, "```json")
	text = strings.Trim(text, "`\n\t ")
	if !strings.HasPrefix(text, "{") {
		return nil, false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil {
		return nil, false
	}
	return object, true
}

// balanced returns text up to the brace that closes one opened before it.
func balanced(text string) string {
	depth := 0
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return text[:i]
			}
			depth--
		}
	}
	return text
}

func canonicalText(text string) string {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	return strings.TrimSuffix(text, ".")
}

// canonicalJSON returns JSON with sorted keys and no white space, or the text as it
// is when it is not JSON.
func canonicalJSON(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return canonicalText(text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return canonicalText(text)
	}
	return string(out)
}
