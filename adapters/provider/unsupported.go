package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// unsupportedFor is how long a parameter that a server reported as unsupported is not sent.
const unsupportedFor = time.Hour

// unsupportedSet has the parameters that a server reported its model does not support, by the error code
// unsupported_parameter (or unsupported_value for one value), by equivalent messages, or as unknown parameters. It
// also records that a model only accepts single tool calls. Other errors concern one client's request, and nothing is
// learned from them. It is safe for concurrent use.
type unsupportedSet struct {
	mu    sync.Mutex
	facts []middleware.Unsupported
}

// maxFacts limits what clients can make a model learn; the oldest fact is dropped.
const maxFacts = 64

// renamed maps parameters to the name to try if they are not supported.
var renamed = map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

// optional are the parameters that a request can do without: they change the answer in degree, not in
// kind.
var optional = []string{
	"temperature", "top_p", "presence_penalty", "frequency_penalty", "reasoning_effort", "verbosity", "stop", "logit_bias", "stream_options", "parallel_tool_calls",
	"reasoning.effort", "reasoning.summary", "text.verbosity", // Responses
}

// The chat templates of some open models accept one call per turn: "This model only supports single
// tool-calls at once!"; https://github.com/vllm-project/vllm/issues/25108. A turn with several calls is then
// sent as several turns.
const (
	onlySingleCalls = "only supports single tool-calls at once"
	parallelCalls   = "calls in parallel"
)

// learn reads an error, removes or renames the parameter that it names in the body, and reports whether to
// repeat the request. Without an error code it acts only on a parameter that the caller did not set, and
// remembers nothing.
func (u *unsupportedSet) learn(err error, c *dialect.Call, body dialect.Object, ownLogProbs bool) (dropped []string, again bool) {
	e, ok := errors.AsType[*middleware.ProviderError](err)
	if ok && strings.Contains(e.Message, onlySingleCalls) && body.SplitCalls() {
		u.add(middleware.Unsupported{Parameter: parallelCalls})
		return []string{parallelCalls}, true
	}
	if !ok || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return nil, false
	}
	for _, name := range unknownMembers(e) {
		if _, sent := body[name]; sent && (c.Params.Extra[name] != nil || slices.Contains(optional, name)) {
			u.add(middleware.Unsupported{Parameter: name})
			dropped = append(dropped, removeParameter(body, name)...)
		}
	}
	if dropped != nil {
		return dropped, true
	}
	own, code := ownParameter(e, body, ownLogProbs), unsupportedCode(e)
	name := cmp.Or(own, e.Param)
	value, sent := body.At(name)
	switch {
	case !sent, code+own == "", renamed[name] == "" && !slices.Contains(optional, name) && own == "":
		return nil, false
	case code != "":
		f := middleware.Unsupported{Parameter: name}
		if code == "unsupported_value" && !strings.Contains(strings.ToLower(e.Message), "only the default") {
			f.Value = jsonOf(value)
		}
		u.add(f)
	}
	return removeParameter(body, name), true
}

// unknownPattern matches the names of unknown members in the error messages of OpenAI
// (https://github.com/spring-projects/spring-ai/issues/5197), Responses, Gemini, Groq and Anthropic, but not those of
// nested members.
var unknownPattern = regexp.MustCompile(`(?i)unrecognized request arguments? supplied: ([\w, ]+)|unknown parameter: '(\w+)'|unknown name "(\w+)": cannot find field|` +
	`property '(\w+)' is unsupported|(?:^|[\s'"])(\w+): extra inputs are not permitted`)

func unknownMembers(e *middleware.ProviderError) (names []string) {
	said := gjson.Parse(e.Message)
	if detail := said.Get("detail"); detail.IsArray() { // Mistral's form, in some of its messages
		said = detail
	}
	for _, fault := range said.Array() {
		if loc := fault.Get("loc").Array(); fault.Get("type").Str == "extra_forbidden" && len(loc) == 2 {
			names = append(names, loc[1].Str)
		}
	}
	for _, found := range unknownPattern.FindAllStringSubmatch(e.Message, -1) {
		names = append(names, strings.FieldsFunc(strings.Join(found[1:], ""), func(c rune) bool { return c == ',' || c == ' ' })...)
	}
	return names
}

// unsupportedCode returns the error code for an unsupported parameter or value, or "". Responses only has it
// in the message: https://github.com/OpenHands/software-agent-sdk/issues/1837.
func unsupportedCode(e *middleware.ProviderError) string {
	for _, code := range []string{"unsupported_parameter", "unsupported_value"} {
		head := strings.ReplaceAll(code, "_", " ") + ": '" + e.Param + "'"
		if e.Name == code || e.Param != "" && len(e.Message) >= len(head) && strings.EqualFold(e.Message[:len(head)], head) {
			return code
		}
	}
	return ""
}

// ownParameter returns the parameter that an error names, if it was added here and not by the caller, or else
// "".
func ownParameter(e *middleware.ProviderError, body dialect.Object, ownLogProbs bool) string {
	names := []string{"stream_options"}
	if ownLogProbs {
		names = append(names, "top_logprobs", "logprobs")
	}
	said := strings.ToLower(e.Message)
	for _, name := range names {
		if _, sent := body[name]; sent && (e.Param == name || strings.Contains(said, name)) {
			if name == "top_logprobs" {
				return "logprobs" // they are only valid together
			}
			return name
		}
	}
	return ""
}

func (u *unsupportedSet) add(f middleware.Unsupported) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f.Until = time.Now().Add(unsupportedFor)
	u.facts = slices.DeleteFunc(u.facts, func(old middleware.Unsupported) bool { return old.Parameter == f.Parameter && old.Value == f.Value })
	if len(u.facts) >= maxFacts {
		u.facts = slices.Delete(u.facts, 0, 1)
	}
	u.facts = append(u.facts, f)
}

func (u *unsupportedSet) current() []middleware.Unsupported {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.facts) == 0 {
		return nil
	}
	now := time.Now()
	u.facts = slices.DeleteFunc(u.facts, func(f middleware.Unsupported) bool { return !f.Until.After(now) })
	return slices.Clone(u.facts)
}

func (u *unsupportedSet) removeFrom(body dialect.Object) (dropped []string) {
	for _, f := range u.current() {
		if f.Parameter == parallelCalls && body.SplitCalls() {
			dropped = append(dropped, parallelCalls)
		}
		if value, sent := body.At(f.Parameter); sent && (f.Value == "" || f.Value == jsonOf(value)) {
			dropped = append(dropped, removeParameter(body, f.Parameter)...)
		}
	}
	return dropped
}

// removeParameter removes a parameter from a body, or renames it, and returns the names that are not
// sent.
func removeParameter(body dialect.Object, name string) (dropped []string) {
	value, _ := body.At(name)
	body.Remove(name)
	if other := renamed[name]; other != "" {
		body[other] = value
		return nil
	}
	if name == "logprobs" {
		delete(body, "top_logprobs")
	}
	return []string{name}
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// Unsupported returns the parameters known to be unsupported. The middleware finds it by assertion.
func (m *model) Unsupported() []middleware.Unsupported { return m.unsupported.current() }
