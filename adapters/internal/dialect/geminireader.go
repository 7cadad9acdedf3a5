package dialect

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// inventedID begins the ids of calls for which the API sent none.
const inventedID = "stepfall_call_"

var geminiStops = map[string]string{
	"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter", "BLOCKLIST": "content_filter",
	"PROHIBITED_CONTENT": "content_filter", "SPII": "content_filter", "IMAGE_SAFETY": "content_filter",
}

type geminiReply struct {
	ResponseID     string          `json:"responseId"`
	ModelVersion   string          `json:"modelVersion"`
	CreateTime     time.Time       `json:"createTime"`
	UsageMetadata  json.RawMessage `json:"usageMetadata"`
	PromptFeedback struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Candidates []geminiCandidate `json:"candidates"`
	Error      *json.RawMessage  `json:"error"`
}

type geminiCandidate struct {
	Index        int    `json:"index"`
	FinishReason string `json:"finishReason"`
	Content      struct {
		Parts []json.RawMessage `json:"parts"`
	} `json:"content"`
	LogProbs struct {
		Chosen []geminiToken `json:"chosenCandidates"`
		Top    []struct {
			Candidates []geminiToken `json:"candidates"`
		} `json:"topCandidates"`
	} `json:"logprobsResult"`
}

type geminiToken struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logProbability"`
}

type geminiReader struct {
	*Reply

	isBlocked bool
}

func (gemini) Reader(r *Reply) Reader { return &geminiReader{Reply: r} }

func (s *geminiReader) Whole(data []byte) error {
	s.Extra.Raw = data
	return s.Event(data)
}

// Event reads an answer, or an event of its stream.
func (s *geminiReader) Event(data []byte) error {
	var in geminiReply
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.Error != nil {
		return ServerError(data)
	}
	x := &s.Extra
	x.ID, x.Served = cmp.Or(in.ResponseID, x.ID), cmp.Or(in.ModelVersion, x.Served)
	if !in.CreateTime.IsZero() {
		x.Created = in.CreateTime.Unix()
	}
	grounding := gjson.GetBytes(data, "candidates.#.groundingMetadata")
	if n := len(grounding.Get("#.webSearchQueries|@flatten").Array()); n > 0 {
		if isBeforeGemini3(x.Served) { // a prompt is billed once, however many searches it causes; https://ai.google.dev/gemini-api/docs/pricing
			n = 1
		}
		x.Usage.HostedCalls, x.Usage.Searches = n, n
	} else if len(grounding.Get("#.groundingChunks|@flatten").Array()) > 0 { // for instance of maps
		x.Usage.HostedCalls = max(x.Usage.HostedCalls, 1)
	}
	if f := in.PromptFeedback; f.BlockReason != "" {
		s.isBlocked = true
		x.Blocked = strings.TrimSpace(f.BlockReason + " " + f.BlockReasonMessage)
	}
	for i := range in.Candidates {
		if err := s.candidate(&in.Candidates[i]); err != nil {
			return err
		}
	}
	if len(in.UsageMetadata) > 0 { // after the candidates, which the usage includes
		usage := gjson.ParseBytes(in.UsageMetadata)
		s.setUsage(geminiUsage.read(usage))
		x.ServiceTier = cmp.Or(strings.ToLower(usage.Get("serviceTier").Str), x.ServiceTier)
		s.Extra.AudioTokens = max(s.Extra.AudioTokens, tokensOf(usage.Get(`promptTokensDetails.#(modality=="AUDIO").tokenCount`)))
	}
	return s.mistyped
}

func (s *geminiReader) candidate(in *geminiCandidate) error {
	c := s.choice(in.Index)
	if c == nil {
		return nil
	}
	if in.FinishReason != "FINISH_REASON_UNSPECIFIED" {
		s.endChoice(c, in.FinishReason)
	}
	tokens := make([]sdk.TokenLogProb, len(in.LogProbs.Chosen))
	for i, t := range in.LogProbs.Chosen {
		tokens[i] = sdk.TokenLogProb{Token: t.Token, LogProb: t.LogProb}
		if i < len(in.LogProbs.Top) {
			for _, alt := range in.LogProbs.Top[i].Candidates {
				tokens[i].Top = append(tokens[i].Top, sdk.TopLogProb(alt))
			}
		}
	}
	for _, raw := range in.Content.Parts {
		d := middleware.Delta{Choice: in.Index, LogProbs: tokens}
		tokens = nil
		signature, err := s.part(c, &d, raw)
		if err != nil {
			return err
		}
		s.add(&d)
		if signature != nil {
			if s.sign(c, signature, d.Choice); d.Reasoning == "" {
				c.endWithText()
			}
			c.thought = c.reasoning.Len()
		}
	}
	s.add(&middleware.Delta{Choice: in.Index, LogProbs: tokens})
	return nil
}

// endWithText moves a text's signature before the text, so that the answer ends with the text.
func (c *replyChoice) endWithText() {
	if n := len(c.parts) - 1; n > 0 {
		if text, isText := c.parts[n-1].(llms.TextContent); isText {
			c.parts[n-1], c.parts[n] = c.parts[n], text
		}
	}
}

var knownOfGeminiPart = newKnown("text thought thoughtSignature")

func (s *geminiReader) sign(c *replyChoice, signature *middleware.RawPart, choice int) {
	if signature == nil {
		return
	}
	c.addPart(*signature)
	s.Emit(&middleware.Delta{Choice: choice, Raw: signature})
}

// endThought makes unsigned reasoning a part, to be sent back unchanged.
func (s *geminiReader) endThought(c *replyChoice, choice int) {
	if thought := c.reasoning.String()[c.thought:]; thought != "" {
		c.thought = c.reasoning.Len()
		s.sign(c, s.state(Object{"text": thought, "thought": true}), choice)
	}
}

func (s *geminiReader) state(part Object) *middleware.RawPart {
	return &middleware.RawPart{Dialect: middleware.DialectGemini, Model: s.Origin, Raw: rawJSON(part)}
}

// part reads a part. It sets the part's text in d and returns the signature that follows. A call is emitted
// directly, with its signature.
func (s *geminiReader) part(c *replyChoice, d *middleware.Delta, raw json.RawMessage) (signature *middleware.RawPart, err error) {
	var p struct {
		Text         string `json:"text"`
		Thought      bool   `json:"thought"`
		Signature    string `json:"thoughtSignature"`
		FunctionCall *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	if p.Signature != "" {
		signature = s.state(Object{"thoughtSignature": p.Signature})
	}
	if !p.Thought {
		s.endThought(c, d.Choice)
	}
	switch f := p.FunctionCall; {
	case f != nil:
		s.sign(c, signature, d.Choice)
		// The id is not derived from the answer's, which some servers omit or repeat: clients drop calls with a known id.
		s.addCall(d.Choice, cmp.Or(f.ID, inventedID+rand.Text()), f.Name, s.wantArguments(f.Args))
		return nil, nil
	case p.Thought:
		d.Reasoning = p.Text
	case p.Text != "":
		d.Text = p.Text
	case knownOfGeminiPart.unknownMembers(gjson.ParseBytes(raw)) != nil:
		c.addPart(middleware.RawPart{Dialect: middleware.DialectGemini, Raw: raw})
	}
	return signature, nil
}

func (s *geminiReader) End(bool) error {
	s.dropOldUsage()
	if len(s.choices) == 0 {
		if !s.isBlocked {
			return middleware.ErrEmptyResponse
		}
		s.choice(0).stop = "SAFETY"
	}
	for i, c := range s.choices {
		if c.stop == "" && s.Extra.Raw == nil {
			return errUnfinished
		}
		s.endThought(c, i)
		c.word = cmp.Or(geminiStops[c.stop], stopError(c.stop))
		if len(c.calls) > 0 && c.word == "stop" {
			c.word = "tool_calls"
		}
	}
	return nil
}
