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
	if top := p.TopLogProbs; !deref(p.LogProbs) {
		b.Remove("generationConfig.responseLogprobs")
		b.Remove("generationConfig.logprobs")
	} else if top != nil {
		b.setPath("generationConfig.logprobs", min(*top, 20))
	}
	setList(b, "generationConfig.stopSequences", o.StopWords)
	b.text("generationConfig.responseMimeType", o.ResponseMIMEType)
	if isJSON(o) {
		b.setPath("generationConfig.responseMimeType", "application/json")
	}
	if p.Schema != nil {
		b.setPath("generationConfig.responseJsonSchema", p.Schema.Schema)
		b.setPath("generationConfig.responseMimeType", "application/json")
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
	if p.ReasoningEffort+p.ReasoningSummary == "" && p.ReasoningTokens == nil {
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
	if p.ReasoningTokens == nil {
		isOld := isBeforeGemini3(model)
		switch tokens, known := thinkingBudget[effort]; {
		case least > 0 && !isOld && (effort == "none" || effort == "minimal"):
			thinking["thinkingLevel"] = "LOW"
		case effort == "none" || isOld:
			if known {
				thinking["thinkingBudget"] = max(tokens, least)
			}
		default:
			thinking.text("thinkingLevel", strings.ToUpper(effort))
		}
		return thinking
	}
	thinking["thinkingBudget"] = min(max(*p.ReasoningTokens, least), most)
	c.omit(*p.ReasoningTokens > most, budgetAbove(most))
	return thinking
}

func isBeforeGemini3(model string) bool { return strings.Contains(model, "gemini-2") }

func (o Object) geminiTools(c *Call) {
	o.tools(c, middleware.DialectGemini, func(f *llms.FunctionDefinition) Object {
		function := c.functionObject(f, "parametersJsonSchema", nil)
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
	switch mode, function, _ := middleware.ToolChoice(c.Options); {
	case function != "":
		calling["mode"], calling["allowedFunctionNames"] = "ANY", []string{c.Limits.toolName(function)}
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
	names := map[string]string{} // tool names by call id
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
	setList(o, "systemInstruction.parts", system)
	o["contents"] = list
	return err
}

// addGeminiPart adds a part. A signature is kept for the part after it or the text before it. Files of a result
// follow it if it can only hold text.
func (c *Call) addGeminiPart(parts []any, p llms.ContentPart, names map[string]string, next *memberWriter) ([]any, error) {
	if raw, ok := p.(middleware.RawPart); ok {
		part := gjson.ParseBytes(raw.Raw)
		if !part.Get("thoughtSignature").Exists() || len(part.Map()) > 1 {
			return append(parts, raw.Raw), nil
		}
		next.signText(parts) // a part that is only a signature belongs to the call after it or the text before it
		next.part = part
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
	if result, _ := one["functionResponse"].(Object); c.Limits.TextResults {
		files, _ := result["parts"].([]Object)
		for _, file := range files {
			parts = append(parts, file)
		}
		delete(result, "parts")
	}
	return parts, nil
}

// signText adds a pending signature to the last part if that is a text.
func (w *memberWriter) signText(parts []any) {
	if n := len(parts); n > 0 && w.part.Exists() {
		if text, _ := parts[n-1].(Object); text["text"] != nil && text["thoughtSignature"] == nil {
			w.addTo(text)
		}
	}
}

// signCalls marks the first call if it has no signature, because another model made it. Without the mark the API
// would reject the turn.
// https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
func signCalls(parts []any) {
	for _, p := range parts {
		if o, _ := p.(Object); o["functionCall"] != nil {
			if o["thoughtSignature"] == nil {
				o["thoughtSignature"] = base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))
			}
			return
		}
	}
}

// geminiPart writes a part, or returns nil for one that can be left out.
func geminiPart(p llms.ContentPart, names map[string]string) (Object, error) {
	switch p := p.(type) {
	case llms.TextContent:
		if p.Text == "" {
			return nil, nil // the API rejects empty parts
		}
		return Object{"text": p.Text}, nil
	case llms.ImageURLContent:
		return geminiFile(imageFile(p)), nil
	case middleware.FilePart:
		return geminiFile(p), nil
	case llms.ToolCall:
		names[p.ID] = p.FunctionCall.Name
		call := Object{"name": p.FunctionCall.Name, "args": argumentsObject(p.FunctionCall.Arguments)}
		call.geminiID(p.ID)
		return Object{"functionCall": call}, nil
	case middleware.ResultPart:
		return geminiResult(p, names)
	case middleware.NamePart:
		return nil, nil
	}
	return nil, refusePart(p)
}

func (o Object) geminiID(id string) {
	if !strings.HasPrefix(id, inventedID) {
		o.text("id", id)
	}
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
	result := Object{"name": cmp.Or(names[p.ToolCallID], p.Name)}
	result.geminiID(p.ToolCallID)
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
	// A result that is a JSON object is used directly; anything else becomes its output.
	if !p.Failed && isObject(content) {
		result["response"] = json.RawMessage(content)
	} else {
		result["response"] = Object{key: content}
	}
	setList(result, "parts", files)
	return Object{"functionResponse": result}, err
}
