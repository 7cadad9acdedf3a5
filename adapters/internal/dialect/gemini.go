package dialect

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

type gemini struct{}

// geminiConfig are the parameters of a request's generationConfig, geminiFields those
// beside it.
var (
	geminiConfig = newParamFields(
		"temperature", "Temperature", "topP", "TopP", "topK", "TopK", "presencePenalty", "PresencePenalty", "frequencyPenalty", "FrequencyPenalty",
		"maxOutputTokens", "MaxTokens", "seed", "Seed", "candidateCount", "N", "responseLogprobs", "LogProbs", "logprobs", "TopLogProbs",
	)
	geminiFields = newParamFields("store", "Store", "serviceTier", "ServiceTier")
)

func (gemini) Dialect() middleware.Dialect { return middleware.DialectGemini }

func (gemini) Write(c *Call) (Object, error) {
	o, p := c.Options, c.Params
	b, config := Object{}, Object{}
	geminiConfig.write(config, p)
	geminiFields.write(b, p)
	if top := p.TopLogProbs; p.LogProbs == nil || !*p.LogProbs {
		delete(config, "responseLogprobs")
		delete(config, "logprobs")
	} else if top != nil {
		config["logprobs"] = min(*top, 20)
	}
	if len(o.StopWords) > 0 {
		config["stopSequences"] = o.StopWords
	}
	switch s := p.Schema; {
	case s != nil:
		config["responseMimeType"], config["responseJsonSchema"] = "application/json", s.Schema
	case isJSON(o):
		config["responseMimeType"] = "application/json"
	default:
		config.text("responseMimeType", o.ResponseMIMEType)
	}
	if thinking := c.geminiThinking(); thinking != nil {
		config["thinkingConfig"] = thinking
	}
	if len(config) > 0 {
		b["generationConfig"] = config
	}
	b.geminiTools(c)
	if err := b.geminiContents(c); err != nil {
		return nil, err
	}
	b.extra(p, middleware.DialectGemini)
	c.NotSent = append(c.NotSent, slices.Concat(geminiConfig, geminiFields).missing(p, middleware.DialectGemini, "Schema", "ReasoningEffort", "ReasoningTokens", "ReasoningSummary")...)
	return b, nil
}

func (c *Call) geminiThinking() Object {
	model, p := c.Model, c.Params
	if p.ReasoningEffort == "" && p.ReasoningTokens == nil && p.ReasoningSummary == "" {
		return nil
	}
	thinking := Object{}
	if p.ReasoningSummary != "" {
		thinking["includeThoughts"] = true
	}
	least, most, effort := 0, thinkingBudget["high"], p.ReasoningEffort
	if strings.Contains(model, "pro") {
		least, most = leastProBudget, proBudget
	}
	switch tokens, known := thinkingBudget[effort]; {
	case p.ReasoningTokens != nil:
		thinking["thinkingBudget"] = min(max(*p.ReasoningTokens, least), most)
		if *p.ReasoningTokens > most {
			c.NotSent = append(c.NotSent, budgetAbove(most))
		}
	case least > 0 && !strings.Contains(model, "gemini-2") && (effort == "none" || effort == "minimal"):
		thinking["thinkingLevel"] = "LOW"
	case effort == "none" || strings.Contains(model, "gemini-2"):
		if known {
			thinking["thinkingBudget"] = max(tokens, least)
		}
	default:
		thinking.text("thinkingLevel", strings.ToUpper(effort))
	}
	return thinking
}

func (o Object) geminiTools(c *Call) {
	o.tools(c, middleware.DialectGemini, func(f *llms.FunctionDefinition) Object {
		function := functionObject(f, "parametersJsonSchema", nil)
		delete(function, "strict")
		return function
	})
	if list, _ := o["tools"].([]any); list != nil {
		n := len(functions(c.Options))
		own := slices.Clone(list[n:])
		if n > 0 {
			own = append([]any{Object{"functionDeclarations": list[:n]}}, own...)
		}
		o["tools"] = own
	}
	calling := Object{}
	switch mode, function, _ := toolChoice(c.Options); {
	case function != "":
		calling["mode"], calling["allowedFunctionNames"] = "ANY", []string{function}
	case mode == "required":
		calling["mode"] = "ANY"
	case mode == "none", mode == "auto":
		calling["mode"] = strings.ToUpper(mode)
	default:
		return
	}
	o["toolConfig"] = Object{"functionCallingConfig": calling}
}

// geminiContents writes the messages.
func (o Object) geminiContents(c *Call) error {
	names := map[string]string{} // tool by call
	system, list, err := turns(c.Messages, "model", "parts", func(from []llms.ContentPart, next *memberWriter, isModel bool) (parts []any, err error) {
		err = eachPart(from, func(p llms.ContentPart, _ *llms.CacheControl) error {
			if raw, ok := p.(middleware.RawPart); ok {
				if isSignature(raw.Raw) {
					next.signText(parts)
					next.part = gjson.ParseBytes(raw.Raw)
				} else {
					parts = append(parts, raw.Raw)
				}
				return nil
			}
			one, err := geminiPart(p, names)
			if err != nil || one == nil {
				return err
			}
			if one["functionCall"] == nil {
				next.signText(parts)
			}
			parts = append(parts, next.addTo(one))
			if result, _ := one["functionResponse"].(Object); c.Limits.TextResults && result["parts"] != nil {
				files, _ := result["parts"].([]Object)
				for _, file := range files {
					parts = append(parts, file)
				}
				delete(result, "parts")
			}
			return nil
		})
		if next.signText(parts); isModel && strings.Contains(c.Model, "gemini-3") {
			signCalls(parts)
		}
		return parts, err
	})
	if system != nil {
		o["systemInstruction"] = Object{"parts": system}
	}
	o["contents"] = list
	return err
}

// isSignature reports whether a part is a signature and nothing else: of the call that follows it,
// or of the text before it.
func isSignature(raw json.RawMessage) bool {
	part := gjson.ParseBytes(raw)
	return part.Get("thoughtSignature").Exists() && len(part.Map()) == 1
}

// signText puts a signature that waits for its part into the text that is the last of parts.
func (w *memberWriter) signText(parts []any) {
	if n := len(parts); n > 0 && w.part.Exists() {
		if text, _ := parts[n-1].(Object); text["text"] != nil && text["thoughtSignature"] == nil {
			w.addTo(text)
		}
	}
}

// signCalls marks the first call of tools that another model made, of which this one has
// no signature and would refuse the turn: the API has a word for that.
// https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
func signCalls(parts []any) {
	i := slices.IndexFunc(parts, func(p any) bool {
		o, ok := p.(Object)
		return ok && o["functionCall"] != nil
	})
	if i < 0 {
		return
	}
	if o, ok := parts[i].(Object); ok && o["thoughtSignature"] == nil {
		o["thoughtSignature"] = base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))
	}
}

// geminiPart writes a part, or nil for what the API has no word for and loses nothing.
func geminiPart(p llms.ContentPart, names map[string]string) (Object, error) {
	switch p := p.(type) {
	case llms.TextContent:
		if p.Text == "" {
			return nil, nil // the API takes no empty part
		}
		return Object{"text": p.Text}, nil
	case llms.ImageURLContent:
		return geminiFile(imageFile(p)), nil
	case middleware.FilePart:
		return geminiFile(p), nil
	case llms.ToolCall:
		names[p.ID] = p.FunctionCall.Name
		call := Object{"name": p.FunctionCall.Name, "args": argumentsObject(p.FunctionCall.Arguments)}
		if !strings.HasPrefix(p.ID, inventedID) {
			call.text("id", p.ID)
		}
		return Object{"functionCall": call}, nil
	case middleware.ResultPart:
		return geminiResult(p, names)
	case middleware.NamePart:
		return nil, nil
	}
	return nil, refusePart(p)
}

func geminiFile(p middleware.FilePart) Object {
	if p.Data != nil {
		return Object{"inlineData": Object{"mimeType": p.MIMEType, "data": p.Data}}
	}
	file := Object{"fileUri": cmp.Or(p.URL, p.ID)}
	if !strings.HasSuffix(p.MIMEType, "/*") {
		file.text("mimeType", p.MIMEType)
	}
	return Object{"fileData": file}
}

func geminiResult(p middleware.ResultPart, names map[string]string) (Object, error) {
	result := Object{"name": cmp.Or(p.Name, names[p.ToolCallID])}
	if !strings.HasPrefix(p.ToolCallID, inventedID) {
		result.text("id", p.ToolCallID)
	}
	key := "output"
	if p.Failed {
		key = "error"
	}
	var text strings.Builder
	var files []Object
	err := eachPart(p.Parts, func(inner llms.ContentPart, _ *llms.CacheControl) error {
		switch inner := inner.(type) {
		case llms.ImageURLContent:
			files = append(files, geminiFile(imageFile(inner)))
		case middleware.FilePart:
			files = append(files, geminiFile(inner))
		case llms.TextContent:
			text.WriteString(inner.Text)
		}
		return nil
	})
	content := cmp.Or(p.Content, text.String())
	// A result that is an object is one; anything else is its output.
	if !p.Failed && gjson.Valid(content) && gjson.Parse(content).IsObject() {
		result["response"] = json.RawMessage(content)
	} else {
		result["response"] = Object{key: content}
	}
	if files != nil {
		result["parts"] = files
	}
	return Object{"functionResponse": result}, err
}

// inventedID begins the ids of calls to which the API gave none.
const inventedID = "stepfall_call_"

var geminiStops = map[string]string{
	"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter", "BLOCKLIST": "content_filter",
	"PROHIBITED_CONTENT": "content_filter", "SPII": "content_filter", "IMAGE_SAFETY": "content_filter",
}

// geminiReply is an answer, or a piece of one.
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

// Event takes in an answer, or a piece of one.
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
	if len(in.UsageMetadata) > 0 {
		hosted := x.Usage.HostedCalls
		x.Usage = geminiUsage.read(gjson.ParseBytes(in.UsageMetadata))
		x.Usage.HostedCalls = hosted
	}
	if n := len(gjson.GetBytes(data, "candidates.#.groundingMetadata.webSearchQueries|@flatten").Array()); n > 0 {
		x.Usage.HostedCalls = n
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
	s.isUsageOld = s.isUsageOld && len(in.UsageMetadata) == 0
	return nil
}

func (s *geminiReader) candidate(in *geminiCandidate) error {
	c := s.choice(in.Index)
	if c == nil {
		return nil
	}
	if in.FinishReason != "FINISH_REASON_UNSPECIFIED" {
		c.stop = cmp.Or(in.FinishReason, c.stop)
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
		if err == nil {
			err = s.add(&d)
		}
		if err == nil && signature != nil {
			err = s.sign(c, signature, d.Choice)
		}
		if err != nil {
			return err
		}
	}
	return s.add(&middleware.Delta{Choice: in.Index, LogProbs: tokens})
}

var knownOfGeminiPart = newKnown("text thought thoughtSignature")

// sign takes in a signature.
func (s *geminiReader) sign(c *replyChoice, signature *middleware.RawPart, choice int) error {
	c.addPart(*signature)
	return s.Emit(&middleware.Delta{Choice: choice, Raw: signature})
}

// part takes in a part: its text is put into d, and is before the signature that is returned. That
// of a call is before the call.
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
		own, err := json.Marshal(map[string]string{"thoughtSignature": p.Signature})
		if err != nil {
			return nil, err
		}
		signature = &middleware.RawPart{Dialect: middleware.DialectGemini, Model: s.Origin, Raw: own}
	}
	switch f := p.FunctionCall; {
	case f != nil:
		if signature != nil {
			if err := s.sign(c, signature, d.Choice); err != nil {
				return nil, err
			}
		}
		id := cmp.Or(f.ID, fmt.Sprintf("%s%s_%d", inventedID, s.Extra.ID, len(c.calls)))
		return nil, s.addCall(d.Choice, id, f.Name, string(argumentsObject(string(f.Args))))
	case p.Thought:
		d.Reasoning = p.Text
	case p.Text != "":
		d.Text = p.Text
	case knownOfGeminiPart.unknown(gjson.ParseBytes(raw)) != nil:
		c.addPart(middleware.RawPart{Dialect: middleware.DialectGemini, Raw: raw})
	}
	return signature, nil
}

func (s *geminiReader) End(bool) error {
	s.dropOldUsage()
	if s.isBlocked && len(s.choices) == 0 {
		s.choice(0).stop = "SAFETY"
	}
	for _, c := range s.choices {
		if c.stop == "" && s.Extra.Raw == nil {
			return errUnfinished
		}
		c.word = cmp.Or(geminiStops[c.stop], strings.ToLower(c.stop))
		if len(c.calls) > 0 && c.word == "stop" {
			c.word = "tool_calls"
		}
	}
	if len(s.choices) == 0 {
		return middleware.ErrEmptyResponse
	}
	return nil
}
