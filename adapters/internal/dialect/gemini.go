package dialect

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

type gemini struct{}

var geminiFields = newParamFields(
	"generationConfig.temperature", "Temperature", "generationConfig.topP", "TopP", "generationConfig.topK", "TopK", "generationConfig.presencePenalty", "PresencePenalty",
	"generationConfig.frequencyPenalty", "FrequencyPenalty", "generationConfig.maxOutputTokens", "MaxTokens", "generationConfig.seed", "Seed", "generationConfig.candidateCount", "N",
	"generationConfig.responseLogprobs", "LogProbs", "generationConfig.logprobs", "TopLogProbs", "store", "Store", "serviceTier", "ServiceTier",
)

func (gemini) Dialect() middleware.Dialect { return middleware.DialectGemini }

func (gemini) Write(c *Call) (Object, error) {
	o, p := c.Options, c.Params
	b := Object{}
	geminiFields.write(b, p)
	if top := p.TopLogProbs; p.LogProbs == nil || !*p.LogProbs {
		b.Remove("generationConfig.responseLogprobs")
		b.Remove("generationConfig.logprobs")
	} else if top != nil {
		b.setPath("generationConfig.logprobs", min(*top, 20))
	}
	if len(o.StopWords) > 0 {
		b.setPath("generationConfig.stopSequences", o.StopWords)
	}
	if p.Schema != nil {
		b.setPath("generationConfig.responseJsonSchema", p.Schema.Schema)
	}
	if p.Schema != nil || isJSON(o) {
		b.setPath("generationConfig.responseMimeType", "application/json")
	} else if o.ResponseMIMEType != "" {
		b.setPath("generationConfig.responseMimeType", o.ResponseMIMEType)
	}
	if thinking := c.geminiThinking(); thinking != nil {
		b.setPath("generationConfig.thinkingConfig", thinking)
	}
	b.geminiTools(c)
	if err := b.geminiContents(c); err != nil {
		return nil, err
	}
	b.addExtra(p, middleware.DialectGemini)
	c.NotSent = append(c.NotSent, geminiFields.missing(p, middleware.DialectGemini, "Schema", "ReasoningEffort", "ReasoningTokens", "ReasoningSummary")...)
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

func (o Object) geminiContents(c *Call) error {
	names := map[string]string{} // tool by call
	system, list, err := writeConversation(c.Messages, "model", "parts", func(from []llms.ContentPart, next *memberWriter, isModel bool) (parts []any, err error) {
		err = eachPart(from, func(p llms.ContentPart, _ *llms.CacheControl) (err error) {
			parts, err = c.addGeminiPart(parts, p, names, next)
			return err
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

// addGeminiPart adds a part. A signature is kept for the part after it or the text before it; files
// of a result follow it where it may only hold text.
func (c *Call) addGeminiPart(parts []any, p llms.ContentPart, names map[string]string, next *memberWriter) ([]any, error) {
	if raw, ok := p.(middleware.RawPart); ok {
		if !isSignature(raw.Raw) {
			return append(parts, raw.Raw), nil
		}
		next.signText(parts)
		next.part = gjson.ParseBytes(raw.Raw)
		return parts, nil
	}
	one, err := geminiPart(p, names)
	if err != nil || one == nil {
		return parts, err
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
	return parts, nil
}

// isSignature reports whether a part is only a signature, of the call after it or the text before
// it.
func isSignature(raw json.RawMessage) bool {
	part := gjson.ParseBytes(raw)
	return part.Get("thoughtSignature").Exists() && len(part.Map()) == 1
}

// signText adds a pending signature to the last part if that is a text.
func (w *memberWriter) signText(parts []any) {
	if n := len(parts); n > 0 && w.part.Exists() {
		if text, _ := parts[n-1].(Object); text["text"] != nil && text["thoughtSignature"] == nil {
			w.addTo(text)
		}
	}
}

// signCalls marks the first call that has no signature, since another model made it. Without the
// mark the API would refuse the turn.
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

// geminiPart writes a part, nil for one that can be left out.
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
