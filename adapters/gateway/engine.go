package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// protocol is one API in which clients ask. What it does not do is the engine's: who
// asks, which model, when text appears, what it cost, what is refused.
type protocol interface {
	// read decodes a request. It keeps nothing of body.
	read(body gjson.Result) (*ask, *Refusal)
	// answer writes what a client gets that does not stream.
	answer(a *ask, o *outcome) any
	// stream returns what writes the events of one that does.
	stream(a *ask, out *events) stream
	// refusal is the body of an error.
	refusal(r *Refusal, requestID string) any
}

// stream writes an answer in pieces. Its methods are called one after the other.
type stream interface {
	// delta writes a piece as it comes.
	delta(d *middleware.Delta)
	// finish writes what has not been written of the answer, and the end.
	finish(o *outcome)
	// fail ends a stream that has begun.
	fail(r *Refusal)
}

// ask is what a client asked for, in langchaingo's terms.
type ask struct {
	model    string
	messages []llms.MessageContent
	options  []llms.CallOption
	tools    []llms.Tool
	params   middleware.Params
	labels   map[string]string
	stream   bool
	pinned   bool // to one model
	usage    bool // the stream ends with what was used
	// echo is what a dialect's answer repeats of the request.
	echo any
}

func (a *ask) add(o llms.CallOption) { a.options = append(a.options, o) }

// outcome is what came of a step.
type outcome struct {
	id      string // of the request
	created int64  // Unix seconds
	model   string // that answered, or that was asked for
	choices []*llms.ContentChoice
	usage   sdk.Usage
	step    *stepInfo
}

// stepInfo is the member "stepfall" of an answer.
type stepInfo struct {
	Model   string  `json:"model"`
	TraceID string  `json:"trace_id"`
	CostUSD float64 `json:"cost_usd"`
	Calls   int     `json:"calls"`
	Quality float64 `json:"quality"`
	Stop    string  `json:"stop"`
}

// step answers a request by a step of the model.
func (g *Gateway) step(x *exchange) *Refusal {
	var a *ask
	if refused := x.body(func(body []byte) (refused *Refusal) {
		a, refused = g.decode(x.dialect, body)
		x.digest = g.retries.digest(&x.client, x.Path, body)
		return refused
	}); refused != nil {
		return refused
	}
	again, early := g.retries.repeated(x.digest)
	if early != nil {
		x.digest = 0 // it knows already
		return early
	}
	if _, ours := x.dialect.(messages); ours {
		a.betas(x.r.Header)
	}
	x.Model, x.Stream = a.model, a.stream
	if refused := g.choose(x, a); refused != nil {
		return refused
	}
	a.settle()
	ctx, report := middleware.WithReport(g.info(x, a, again || isRetry(x.r.Header)))
	var s *streaming
	if a.stream {
		s = newStreaming(x, a)
		a.params.OnDelta = s.delta
	}
	if len(a.tools) > 0 {
		a.add(llms.WithTools(a.tools))
	}
	a.add(middleware.WithParams(a.params))
	resp, err := g.o.Model.GenerateContent(ctx, a.messages, a.options...)
	x.Steps = report.Steps()
	if s != nil {
		return s.end(ctx, resp, err)
	}
	x.describe()
	if err != nil {
		return failure(ctx, err)
	}
	x.json(http.StatusOK, x.dialect.answer(a, x.outcome(a, resp)))
	return nil
}

// settle says whose the state is that came without a tag, from a conversation that began
// elsewhere: of the model that the request is pinned to, or else of one that has the name
// which was asked for.
func (a *ask) settle() {
	for _, m := range a.messages {
		for i, p := range m.Parts {
			raw, ok := p.(middleware.RawPart)
			if !ok || raw.Model != dialect.Unknown {
				continue
			}
			if raw.Model = a.model; a.pinned {
				raw.Model = ""
			}
			m.Parts[i] = raw
		}
	}
}

// decode reads a request. Bodies that are deeper than any of a client's are not looked
// into, since whatever reads them would have to go as deep.
func (g *Gateway) decode(d protocol, body []byte) (*ask, *Refusal) {
	root, refused := parse(body)
	if refused != nil {
		return nil, refused
	}
	return d.read(root)
}

const deepest = 256

func parse(body []byte) (gjson.Result, *Refusal) {
	if depth(body) > deepest {
		return gjson.Result{}, invalid("", "the body is nested more than %d deep", deepest)
	}
	if !gjson.ValidBytes(body) {
		return gjson.Result{}, invalid("", "the body is not JSON")
	}
	if !utf8.Valid(body) {
		return gjson.Result{}, invalid("", "the body is not UTF-8")
	}
	root := gjson.ParseBytes(body)
	if !root.IsObject() {
		return gjson.Result{}, invalid("", "the body is not a JSON object")
	}
	return root, nil
}

// depth returns how deep arrays and objects are nested in a text that may be JSON.
func depth(text []byte) int {
	deep, most, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			deep++
			most = max(most, deep)
		case c == '}' || c == ']':
			deep--
		}
	}
	return most
}

// choose pins the request to the model that it names, if it names one.
func (g *Gateway) choose(x *exchange, a *ask) *Refusal {
	if a.model == "" {
		a.model = g.o.Name
	}
	if x.client.Models != nil && !slices.Contains(x.client.Models, a.model) {
		return notFound(a.model, x.client.Models)
	}
	switch {
	case a.model == g.o.Name:
	case slices.Contains(g.o.Models(), a.model):
		a.pinned = true
		a.add(llms.WithModel(a.model))
	case !g.o.AnyModel:
		return notFound(a.model, append([]string{g.o.Name}, g.o.Models()...))
	}
	return nil
}

func notFound(model string, have []string) *Refusal {
	r := refuse(http.StatusNotFound, "model_not_found", "no model %q here; there are: %s", model, strings.Join(have, ", "))
	r.Param = "model"
	return r
}

// info says where a step comes from. One that its client repeats by itself tries no call
// again.
func (g *Gateway) info(x *exchange, a *ask, again bool) context.Context {
	h := x.r.Header
	return middleware.WithInfo(x.r.Context(), middleware.Info{
		QueryID: h.Get(HeaderQuery), Group: h.Get(HeaderGroup), Run: h.Get(HeaderRun), Session: h.Get(HeaderSession),
		Tenant: x.client.Tenant, Labels: a.labels, NoRetry: again,
	})
}

// outcome collects what dialects write of an answer.
func (x *exchange) outcome(a *ask, resp *llms.ContentResponse) *outcome {
	o := &outcome{id: x.answerID, created: x.Start.Unix(), model: a.model, choices: resp.Choices}
	if len(x.Steps) == 0 {
		if e := middleware.ExtraOf(resp.Choices[0]); e != nil {
			o.usage = e.Usage
		}
		return o
	}
	t := x.Steps[len(x.Steps)-1]
	o.model, o.usage = t.Chosen, t.Usage
	o.step = &stepInfo{Model: t.Chosen, TraceID: t.ID, CostUSD: t.CostUSD, Calls: len(t.Calls), Stop: string(t.Stop)}
	o.step.Quality, _ = resp.Choices[0].GenerationInfo[middleware.KeyQuality].(float64)
	return o
}
