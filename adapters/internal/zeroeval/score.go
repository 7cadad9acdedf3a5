package zeroeval

import (
	"regexp"
	"strconv"
	"strings"
)

// score takes the final answer from what a model wrote, and says whether it is right.
// An answer that cannot be found is "" and wrong.
func score(benchmark, file, text string, gold string) (answer string, right bool) {
	answer, found := extract(file, text)
	if !found {
		return "", false
	}
	if benchmark == "crux" {
		answer = strings.ReplaceAll(strings.Trim(answer, `'"`), "\n", `\n`)
		return answer, answer == strings.Trim(gold, `'"`)
	}
	answer = plain(answer)
	got, ok := firstNumber(answer)
	want, known := firstNumber(plain(strings.TrimSpace(strings.ReplaceAll(gold, "#", ""))))
	return answer, ok && known && got == want
}

// space is what Python's \s matches.
const space = `[\s\v\x{1c}-\x{1f}\x{85}\p{Z}]`

// What is tried, in order, where the text holds no whole JSON object with an answer: a
// quoted value, a bare one, and one whose key has no quotes.
var answerIn = []*regexp.Regexp{
	regexp.MustCompile(`"answer"` + space + `*:` + space + `*"([^"]*)"`),
	regexp.MustCompile(`"answer"` + space + `*:` + space + `*([^,\s\v\x{1c}-\x{1f}\x{85}\p{Z}]*)`),
	regexp.MustCompile(`answer` + space + `*:` + space + `*([^,\s\v\x{1c}-\x{1f}\x{85}\p{Z}]*)`),
}

var boxed = regexp.MustCompile(`\\boxed\{([\p{L}\p{N}_]+)\}`)

// extract returns the answer as it was written.
func extract(file, text string) (string, bool) {
	if v, has := firstObject(text).get("answer"); has {
		return pythonText(v), true
	}
	for _, pattern := range answerIn {
		if m := pattern.FindStringSubmatch(text); m != nil {
			return m[1], true
		}
	}
	if runes := []rune(text); strings.Contains(file, "Llama-3.1") && strings.Contains(string(runes[max(0, len(runes)-30):]), "boxed") {
		if m := boxed.FindStringSubmatch(text); m != nil {
			return m[1], true
		}
	}
	return "", false
}

// firstObject reads the text from the first brace to the one that closes it, counted
// without regard to quotes; nil where that is no JSON.
func firstObject(text string) object {
	depth, start := 0, -1
	for i := range len(text) {
		switch {
		case text[i] == '{':
			if start < 0 {
				start = i
			}
			depth++
		case text[i] == '}' && depth > 0:
			if depth--; depth > 0 {
				continue
			}
			v, err := decode(strings.ReplaceAll(text[start:i+1], "\n", ""))
			if err != nil {
				return nil
			}
			return v.(object)
		}
	}
	return nil
}

// plain takes signs of currency and thousands from an answer, and works a fraction out.
func plain(answer string) string {
	answer = strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(answer, "$", "")), ",", "")
	if strings.Contains(answer, "/") {
		if v, ok := evaluate(answer); ok {
			return pythonFloat(v)
		}
	}
	return answer
}

var aNumber = regexp.MustCompile(`-?\d+(\.\d+)?`)

func firstNumber(s string) (float64, bool) {
	m := aNumber.FindString(s)
	v, err := strconv.ParseFloat(m, 64)
	return v, m != "" && err == nil
}
