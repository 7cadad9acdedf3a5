package middleware

import (
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// The protocols of langchaingo's text agents, and the phrases that identify their format instructions.
const (
	protocolMRKL           = "mrkl"
	protocolConversational = "conversational"

	finalAnswerMark    = "Final Answer"
	conversationalMark = "Do I need to use a tool?"
)

// mrklAction and conversationalAction are the patterns of the agents' parsers.
var (
	mrklAction           = regexp.MustCompile(`(?is)Action:\s*(.+?)\s*Action\s+Input:\s*(.+)`)
	conversationalAction = regexp.MustCompile(`(?s)Action: (.*?)[\n]*Action Input: (.*)`)
	offeredTools         = regexp.MustCompile(`should be one of \[([^\]]*)\]`)
)

// protocolFault rejects answers that the agent cannot parse: they would end the run or waste an iteration.
func protocolFault(q *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	if isCutAsAsked(q, a) {
		return ""
	}
	switch q.Labels[labelProtocol] {
	case protocolMRKL:
		return mrklFault(q, a.Text)
	case protocolConversational:
		if strings.Contains(a.Text, "AI:") {
			return ""
		}
		return actionFault(q, conversationalAction.FindStringSubmatch(a.Text))
	}
	return ""
}

func mrklFault(q *sdk.Query, text string) string {
	lower := strings.ToLower(text)
	for _, final := range [...]string{"final answer:", "final answer :", "the final answer is:", "the answer is:"} {
		at := strings.Index(lower, final)
		if at < 0 {
			continue
		}
		if strings.Contains(lower[at:], "\naction:") {
			return "both a final answer and an action"
		}
		if strings.TrimSpace(lower[at+len(final):]) == "" {
			return "the final answer is empty"
		}
		return ""
	}
	return actionFault(q, mrklAction.FindStringSubmatch(text))
}

func actionFault(q *sdk.Query, match []string) string {
	if len(match) != 3 {
		return "neither a final answer nor an action with its input"
	}
	tool := strings.TrimSpace(match[1])
	known := promptTools(q)
	if len(known) == 0 || slices.ContainsFunc(known, func(name string) bool { return strings.EqualFold(name, tool) }) {
		return ""
	}
	return "unknown tool " + firstLine(tool)
}

func promptTools(q *sdk.Query) []string {
	if len(q.Messages) == 0 {
		return nil
	}
	parts := q.Messages[len(q.Messages)-1].Parts
	if len(parts) == 0 {
		return nil
	}
	text := parts[0].Text
	match := offeredTools.FindStringSubmatch(text[:min(len(text), scanWindow)])
	if match == nil {
		match = offeredTools.FindStringSubmatch(text[max(0, len(text)-scanWindow):])
	}
	if match == nil {
		return nil
	}
	var names []string
	for name := range strings.SplitSeq(match[1], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}
