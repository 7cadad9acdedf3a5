package feature

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stepfall/stepfall/sdk"
)

// SignalAgreement names the answer signal that says how many of the step's earlier
// answers say the same, as a share: see [AnswerKey]. The first answer of a step has none.
const SignalAgreement = "agreement"

// AnswerKey returns an answer in the form in which two of them are compared:
//
//   - its tool calls, if there are any, in any order: names and arguments, these with
//     sorted fields, numbers as numbers, texts without white space around them, and
//     without fields that are null
//   - what an agent that writes its calls as text does: the tool after "Action:" and its input after
//     "Action Input:", compared like those of a tool call, unless there is a "Final Answer:"
//   - of an answer that is a JSON object its field "answer", else all its fields but
//     those that give reasons
//   - what stands in the last \boxed{}, else what follows the last "answer:" on its line
//   - else the text: one of a few words as it is, a longer one by the numbers and
//     identifiers that it states, and whether it negates, if it states any
//
// Letter case (but for arguments), white space, and a closing full stop do not count.
// The key of a text that is a key is that text. An answer whose Key is set has that.
func AnswerKey(a *sdk.Answer) string {
	switch {
	case a.Key != "":
		return a.Key
	case len(a.ToolCalls) > 0:
		calls := make([]string, len(a.ToolCalls))
		for i, call := range a.ToolCalls {
			calls[i] = strings.TrimSpace(call.Name) + "(" + canonicalArguments(call.Arguments) + ")\n"
		}
		slices.Sort(calls)
		return strings.Join(calls, "")
	}
	key := a.Text
	for range deepestAnswer {
		inner := cmp.Or(writtenCall(key), canonicalText(finalAnswer(key)))
		if inner == key {
			break
		}
		key = inner
	}
	if writtenCall(key) != "" {
		return key
	}
	return statedFacts(key)
}

// The marks of a call that an agent writes as text.
const (
	actionMark = "action:"
	inputMark  = "action input:"
)

// writtenCall returns the canonical form of the call that a text ends with, "" where it is none. What a
// model writes after its call is what it expects of the tool.
func writtenCall(text string) string {
	end := afterLast(text, inputMark)
	if end < 0 || afterLast(text, "final answer:") >= 0 {
		return ""
	}
	before := text[:end-len(inputMark)]
	start := afterLast(before, actionMark)
	if start < 0 {
		return ""
	}
	input, _, _ := strings.Cut(text[end:], "\nObservation:")
	return actionMark + " " + canonicalText(before[start:]) + " " + inputMark + " " + canonicalArguments(input)
}

// HashKey returns what traces keep of a key: 64 bits in hexadecimal, which is its own
// key; "" for an empty key.
func HashKey(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	var text [16]byte
	hex.Encode(text[:], sum[:8])
	return string(text[:])
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
		maps.DeleteFunc(object, func(name string, _ json.RawMessage) bool { return slices.Contains(reasons[:], name) })
		if len(object) > 0 {
			fields, _ := json.Marshal(object) // which were decoded from JSON
			return canonicalArguments(string(fields))
		}
	}
	if i := strings.LastIndex(text, `\boxed{`); i >= 0 {
		return firstObject(text[i+len(`\boxed{`):])
	}
	if i := afterLast(text, "answer:"); i >= 0 {
		line, _, _ := strings.Cut(text[i:], "\n")
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return text
}

// afterLast returns where the last occurrence of an ASCII mark that ends in a sign ends in a text, letter
// case not counted, or -1. It does not change the case of the text, since that can
// change its length.
func afterLast(text, mark string) int {
	last := mark[len(mark)-1] // no letter
	for end := strings.LastIndexByte(text, last) + 1; end >= len(mark); end = strings.LastIndexByte(text[:end-1], last) + 1 {
		if strings.EqualFold(text[end-len(mark):end], mark) {
			return end
		}
	}
	return -1
}

// jsonObject returns the object of a text that is one, apart from a code fence.
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

// firstObject returns text up to the brace that closes one opened before it.
func firstObject(text string) string {
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
	if !isPlain(text) {
		text = lowerWords(text)
	}
	return strings.TrimSuffix(text, ".")
}

// lowerWords returns the words of a text in small letters with one space between them.
func lowerWords(text string) string {
	words := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= utf8.RuneSelf:
			return strings.Join(strings.Fields(strings.ToLower(text)), " ")
		case c >= 'A' && c <= 'Z':
			words = append(words, c+'a'-'A')
		case !unicode.IsSpace(rune(c)):
			words = append(words, c)
		case len(words) > 0 && words[len(words)-1] != ' ':
			words = append(words, ' ')
		}
	}
	return string(bytes.TrimSuffix(words, []byte(" ")))
}

// isPlain reports whether a text is lower-case ASCII words separated by single spaces.
func isPlain(text string) bool {
	space := true
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || unicode.IsUpper(rune(c)) || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return !space || text == ""
}

// reasons are the fields of a JSON object that say why the others hold what they do.
var reasons = [...]string{"reasoning", "reason", "rationale", "explanation", "thought", "thoughts", "thinking", "analysis", "comment"}

// canonicalArguments returns a JSON text in canonical form, and another text in small
// letters. An empty text is a call without arguments.
func canonicalArguments(text string) string {
	if strings.TrimSpace(text) == "" {
		return "{}"
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil || decoder.More() {
		return canonicalText(text)
	}
	out, err := json.Marshal(canonical(v))
	if err != nil {
		return canonicalText(text)
	}
	return string(out)
}

// canonical returns a JSON value in the form in which it is compared.
func canonical(v any) any {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		return json.Number(canonicalNumber(string(v)))
	case []any:
		for i := range v {
			v[i] = canonical(v[i])
		}
	case map[string]any:
		for name, field := range v {
			if v[name] = canonical(field); field == nil {
				delete(v, name)
			}
		}
	}
	return v
}

// canonicalNumber returns a number in its shortest form. Other texts, and integers too large for a float64,
// are returned unchanged.
func canonicalNumber(text string) string {
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsInf(x, 0) || math.IsNaN(x):
		return text
	case math.Abs(x) < 1<<53:
		return strconv.FormatFloat(x+0, 'f', -1, 64) // adding 0 takes the sign off -0
	}
	return text
}

// longText is the number of words from which a text is compared by what it states.
const longText = 12

// statedFacts returns the numbers and identifiers of a long canonical text, sorted, after "not" if it
// negates. A short text, and one without any, is returned unchanged, except for the form of a number.
func statedFacts(text string) string {
	switch n := strings.Count(text, " ") + 1; { // one space between two words
	case n == 1:
		if fact := canonicalAmount(text); isNumber(fact) {
			return fact
		}
		return text
	case n < longText, !strings.ContainsAny(text, "0123456789"):
		return text
	}
	words := strings.Fields(text)
	var facts []string
	for _, word := range words {
		if fact := canonicalAmount(word); strings.ContainsAny(fact, "0123456789") {
			facts = append(facts, fact)
		}
	}
	if facts == nil {
		return text
	}
	slices.Sort(facts)
	facts = slices.Compact(facts)
	if slices.ContainsFunc(words, isNegation) {
		facts = append([]string{"not"}, facts...)
	}
	return strings.Join(facts, " ")
}

// canonicalAmount returns a word without the signs around it, and a number in its
// shortest form without separators: 1204.5 for "$1,204.50".
func canonicalAmount(word string) string {
	bare := strings.Trim(word, "$€£¥%*_`'\"()[]{}<>.,:;!?#")
	if number := strings.ReplaceAll(bare, ",", ""); isNumber(number) {
		return canonicalNumber(number)
	}
	return bare
}

func isNumber(text string) bool {
	if text == "" || text[len(text)-1] > '9' {
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

func isNegation(word string) bool {
	switch strings.Trim(word, "*_.,:;!?") {
	case "no", "not", "cannot", "never", "none", "unable", "without":
		return true
	}
	return strings.HasSuffix(word, "n't") || strings.HasSuffix(word, "n’t")
}
