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

// SignalAgreement is the name of the answer signal for the share of the step's earlier
// answers that are equal by [AnswerKey]. The first answer of a step has none.
const SignalAgreement = "agreement"

// AnswerKey returns the canonical form of an answer, by which two answers are compared. It
// is the first of these that applies:
//
//   - the tool calls, in any order: names and arguments, with sorted fields, normalised
//     numbers, texts without surrounding white space, and without null fields
//   - a tool call written as text, as some agents do: the tool after "Action:" and its input
//     after "Action Input:", compared like a tool call, unless there is a "Final Answer:"
//   - for an answer that is a JSON object, its field "answer", else all its fields except
//     those that give reasons
//   - the content of the last \boxed{}, else the rest of the line after the last "answer:"
//   - the text: a short one as it is, and a longer one by the numbers and identifiers that
//     it states and whether it negates, if it states any
//
// All rules but the first are applied repeatedly, since answers can be nested. Letter case
// (except in arguments), white space and a final full stop do not count. The key of a key
// is that key. If an answer's Key is set, it is returned.
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

// The marks of a tool call written as text.
const (
	actionMark = "action:"
	inputMark  = "action input:"
)

// writtenCall returns the canonical form of the last tool call written in a text, or "". Text after the
// call, which is the model's guess of the tool's result, is ignored.
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

// HashKey returns the hash of a key for traces, 64 bits in hexadecimal, or "" for an empty
// key. It is a key itself.
func HashKey(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	var text [16]byte
	hex.Encode(text[:], sum[:8])
	return string(text[:])
}

// deepestAnswer bounds the nesting of answers within answers.
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
			fields, _ := json.Marshal(object) // cannot fail: decoded from JSON
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

// afterLast returns the index in text after the last occurrence of mark, ignoring case, or -1. mark is
// ASCII and must not end in a letter. The text is not lower-cased, since that can change its length.
func afterLast(text, mark string) int {
	last := mark[len(mark)-1] // not a letter
	for end := strings.LastIndexByte(text, last) + 1; end >= len(mark); end = strings.LastIndexByte(text[:end-1], last) + 1 {
		if strings.EqualFold(text[end-len(mark):end], mark) {
			return end
		}
	}
	return -1
}

// jsonObject parses a text that is a JSON object, possibly in a code fence.
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

// firstObject returns text up to the first brace that closes one not opened in it.
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

// lowerWords returns the words of a text in lower case, separated by single spaces.
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

// reasons are the fields of a JSON object that explain the others.
var reasons = [...]string{"reasoning", "reason", "rationale", "explanation", "thought", "thoughts", "thinking", "analysis", "comment"}

// canonicalArguments returns a JSON text in canonical form, and any other text in lower
// case. An empty text is a call without arguments.
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
		return strconv.FormatFloat(x+0, 'f', -1, 64) // adding 0 turns -0 into 0
	}
	return text
}

// longText is the number of words from which a text is compared by its statedFacts.
const longText = 12

// statedFacts returns the sorted numbers and identifiers of a long canonical text, after "not" if it
// negates. A short text, or one without any, is returned unchanged, except for the form of a number.
func statedFacts(text string) string {
	switch n := strings.Count(text, " ") + 1; { // words are separated by single spaces
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

// canonicalAmount returns a word without surrounding punctuation, and a number in its
// shortest form without separators, such as 1204.5 for "$1,204.50".
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
