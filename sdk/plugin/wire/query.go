package wire

import (
	"strings"
	unicode "unicode/utf8"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
)

// utf8 makes text fit for a protobuf string: models and tools write bytes that
// are not UTF-8, and one of them must not make a whole request unsendable.
func utf8(s string) string {
	if unicode.ValidString(s) { // several times as fast as ToValidUTF8
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func utf8All(in []string) []string {
	for i, s := range in {
		if fixed := utf8(s); fixed != s {
			out := append([]string(nil), in...)
			for j := i; j < len(out); j++ {
				out[j] = utf8(out[j])
			}
			return out
		}
	}
	return in
}

func stringsMap(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[utf8(k)] = utf8(v)
	}
	return out
}

func floatsMap(in map[string]float64) map[string]float64 {
	for k := range in {
		if utf8(k) != k {
			out := make(map[string]float64, len(in))
			for k, v := range in {
				out[utf8(k)] = v
			}
			return out
		}
	}
	return in
}

func queryToWire(q *sdk.Query) *pb.Query {
	if q == nil {
		return nil
	}
	out := &pb.Query{
		Id: utf8(q.ID), Group: utf8(q.Group),
		MaxOutputTokens: int64(q.MaxOutputTokens), InputTokens: int64(q.InputTokens),
		Run: utf8(q.Run), Session: utf8(q.Session), Tenant: utf8(q.Tenant),
		Labels: stringsMap(q.Labels), Features: floatsMap(q.Features),
		WorkDir: utf8(q.WorkDir),
	}
	if len(q.Messages) > 0 {
		out.Messages = make([]*pb.Message, len(q.Messages))
		for i := range q.Messages {
			out.Messages[i] = messageToWire(&q.Messages[i])
		}
	}
	for _, t := range q.Tools {
		out.Tools = append(out.Tools, &pb.Tool{Name: utf8(t.Name), Description: utf8(t.Description), Parameters: t.Parameters})
	}
	if q.Format.JSON || len(q.Format.Schema) > 0 {
		out.Format = &pb.ResponseFormat{Json: q.Format.JSON, Schema: q.Format.Schema}
	}
	if len(q.Checks.FailToPass)+len(q.Checks.PassToPass) > 0 {
		out.Checks = &pb.Checks{FailToPass: utf8All(q.Checks.FailToPass), PassToPass: utf8All(q.Checks.PassToPass)}
	}
	return out
}

func queryFromWire(q *pb.Query) *sdk.Query {
	if q == nil {
		return &sdk.Query{}
	}
	out := &sdk.Query{
		ID: q.Id, Group: q.Group,
		MaxOutputTokens: int(q.MaxOutputTokens), InputTokens: int(q.InputTokens),
		Run: q.Run, Session: q.Session, Tenant: q.Tenant,
		Labels: q.Labels, Features: q.Features,
		WorkDir: q.WorkDir,
		Format:  sdk.ResponseFormat{JSON: q.Format.GetJson(), Schema: q.Format.GetSchema()},
		Checks:  sdk.Checks{FailToPass: q.Checks.GetFailToPass(), PassToPass: q.Checks.GetPassToPass()},
	}
	if len(q.Messages) > 0 {
		out.Messages = make([]sdk.Message, len(q.Messages))
		for i, m := range q.Messages {
			out.Messages[i] = messageFromWire(m)
		}
	}
	for _, t := range q.Tools {
		out.Tools = append(out.Tools, sdk.Tool{Name: t.GetName(), Description: t.GetDescription(), Parameters: t.GetParameters()})
	}
	return out
}

func messageToWire(m *sdk.Message) *pb.Message {
	out := &pb.Message{Role: utf8(string(m.Role)), Parts: make([]*pb.Part, len(m.Parts))}
	for i := range m.Parts {
		out.Parts[i] = partToWire(&m.Parts[i])
	}
	return out
}

func partToWire(p *sdk.Part) *pb.Part {
	switch p.Kind {
	case sdk.PartText:
		both := &struct { // nearly all parts are text; they take their memory in one piece
			part pb.Part
			text pb.Part_Text
		}{text: pb.Part_Text{Text: utf8(p.Text)}}
		both.part.Part = &both.text
		return &both.part
	case sdk.PartImageURL:
		return &pb.Part{Part: &pb.Part_ImageUrl{ImageUrl: utf8(p.URL)}}
	case sdk.PartBinary:
		return &pb.Part{Part: &pb.Part_Binary{Binary: &pb.Binary{MimeType: utf8(p.MIMEType), Data: p.Data}}}
	case sdk.PartToolCall:
		if p.ToolCall != nil {
			return &pb.Part{Part: &pb.Part_ToolCall{ToolCall: toolCallToWire(p.ToolCall)}}
		}
	case sdk.PartToolResult:
		if r := p.ToolResult; r != nil {
			return &pb.Part{Part: &pb.Part_ToolResult{ToolResult: &pb.ToolResult{
				CallId: utf8(r.CallID), Name: utf8(r.Name), Content: utf8(r.Content), IsError: r.IsError,
			}}}
		}
	}
	return &pb.Part{}
}

func messageFromWire(m *pb.Message) sdk.Message {
	out := sdk.Message{Role: sdk.Role(m.GetRole()), Parts: make([]sdk.Part, len(m.GetParts()))}
	for i, p := range m.GetParts() {
		out.Parts[i] = partFromWire(p)
	}
	return out
}

func partFromWire(p *pb.Part) sdk.Part {
	switch v := p.GetPart().(type) {
	case *pb.Part_Text:
		return sdk.TextPart(v.Text)
	case *pb.Part_ImageUrl:
		return sdk.Part{Kind: sdk.PartImageURL, URL: v.ImageUrl}
	case *pb.Part_Binary:
		return sdk.Part{Kind: sdk.PartBinary, MIMEType: v.Binary.GetMimeType(), Data: v.Binary.GetData()}
	case *pb.Part_ToolCall:
		call := toolCallFromWire(v.ToolCall)
		return sdk.Part{Kind: sdk.PartToolCall, ToolCall: &call}
	case *pb.Part_ToolResult:
		r := v.ToolResult
		return sdk.Part{Kind: sdk.PartToolResult, ToolResult: &sdk.ToolResult{
			CallID: r.GetCallId(), Name: r.GetName(), Content: r.GetContent(), IsError: r.GetIsError(),
		}}
	}
	return sdk.Part{}
}

func toolCallToWire(c *sdk.ToolCall) *pb.ToolCall {
	return &pb.ToolCall{Id: utf8(c.ID), Name: utf8(c.Name), Arguments: utf8(c.Arguments)}
}

func toolCallFromWire(c *pb.ToolCall) sdk.ToolCall {
	return sdk.ToolCall{ID: c.GetId(), Name: c.GetName(), Arguments: c.GetArguments()}
}

func modelToWire(m *sdk.Model) *pb.Model {
	out := &pb.Model{
		Name: utf8(m.Name), Provider: utf8(m.Provider), Served: utf8(m.Served),
		Price: &pb.Price{
			Input: m.Price.Input, CachedInput: m.Price.CachedInput, CacheWrite: m.Price.CacheWrite,
			Output: m.Price.Output, Reasoning: m.Price.Reasoning,
		},
		ContextTokens: int64(m.ContextTokens), MaxOutputTokens: int64(m.MaxOutputTokens),
	}
	for _, c := range capabilities(&m.Capabilities) {
		if *c.has {
			out.Capabilities = append(out.Capabilities, c.name)
		}
	}
	return out
}

func modelFromWire(m *pb.Model) sdk.Model {
	out := sdk.Model{
		Name: m.GetName(), Provider: m.GetProvider(), Served: m.GetServed(),
		Price: sdk.Price{
			Input: m.GetPrice().GetInput(), CachedInput: m.GetPrice().GetCachedInput(), CacheWrite: m.GetPrice().GetCacheWrite(),
			Output: m.GetPrice().GetOutput(), Reasoning: m.GetPrice().GetReasoning(),
		},
		ContextTokens: int(m.GetContextTokens()), MaxOutputTokens: int(m.GetMaxOutputTokens()),
	}
	for _, c := range capabilities(&out.Capabilities) {
		for _, name := range m.GetCapabilities() {
			if name == c.name {
				*c.has = true
			}
		}
	}
	return out
}

type capability struct {
	name string
	has  *bool
}

func capabilities(c *sdk.Capabilities) [6]capability {
	return [...]capability{
		{"tools", &c.Tools},
		{"images", &c.Images},
		{"json_mode", &c.JSONMode},
		{"json_schema", &c.JSONSchema},
		{"log_probs", &c.LogProbs},
		{"reasoning", &c.Reasoning},
	}
}
