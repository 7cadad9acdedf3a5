package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/plugin"
)

type verifier struct {
	config Config
	prompt *template.Template
	// secret is the key of the marks.
	secret []byte
	// models returns the model caller for a host call.
	models func(ctx context.Context) plugin.ModelCaller
}

// view is the data of the prompt's template.
type view struct {
	Task, Answer, Other, Criteria string
	// Calls is true if an answer has tool calls.
	Calls   bool
	Options [2]string
	// Mark is a secret of the conversation. Text between two marks is data, which an answer cannot end because it
	// cannot know the mark.
	Mark string
}

// ballot is one reply of the judge: whether it favours the answer, and with which probability.
type ballot struct {
	favours     bool
	probability float64
}

// Verify asks the judge twice. If a call fails or a reply chooses no letter, the verdict is inconclusive. The
// host, which makes the calls, adds their cost to the verdict.
func (v *verifier) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	verdict := &sdk.Verdict{}
	if req.Answer == nil {
		verdict.Evidence = "there is no answer"
		return verdict, nil
	}
	other, subject := v.subject(req)
	var ballots [2]ballot
	for i := range ballots {
		var err error
		ballots[i], err = v.ask(ctx, req, other, i == 1)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			verdict.Evidence = fmt.Sprintf("judge %s: %v", v.config.Model, err)
			return verdict, nil
		}
	}
	switch {
	case ballots[0].favours != ballots[1].favours:
		verdict.Score, verdict.Evidence = 0.5, v.config.Model+" changes its verdict with the order of the options"
		return verdict, nil
	case ballots[0].favours:
		verdict.Outcome, verdict.Score, verdict.Evidence = sdk.Passed, 1, v.config.Model+" finds "+subject+", in both orders"
	default:
		verdict.Outcome, verdict.Evidence = sdk.Failed, v.config.Model+" does not find "+subject+", in both orders"
	}
	verdict.Confidence = min(v.config.Confidence, (ballots[0].probability+ballots[1].probability)/2)
	return verdict, nil
}

// subject returns the answer to compare with, or nil, and a description of what the judge has to find.
func (v *verifier) subject(req *sdk.VerifyRequest) (other *sdk.Answer, subject string) {
	if v.config.Mode != "compare" || len(req.Earlier) == 0 {
		return nil, "the answer acceptable"
	}
	other = &req.Earlier[len(req.Earlier)-1].Answer
	return other, "the answer better than that of " + other.Model
}

// acceptable is the option for a final answer.
const acceptable = "The answer is acceptable: correct and complete."

// ask calls the judge once. If swapped is true, the order of the options or, in a comparison, of the answers
// is reversed.
func (v *verifier) ask(ctx context.Context, req *sdk.VerifyRequest, other *sdk.Answer, swapped bool) (ballot, error) {
	var text strings.Builder
	see := v.view(req, other, swapped)
	if err := v.prompt.Execute(&text, see); err != nil {
		return ballot{}, err
	}
	reply, err := v.models(ctx).CallModel(ctx, v.config.Model, &sdk.Query{
		Messages:        []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(text.String())}}},
		MaxOutputTokens: v.config.MaxTokens,
	})
	if err != nil {
		return ballot{}, err
	}
	letter, err := parseLetter(reply.Text, see.Options)
	if err != nil {
		return ballot{}, err
	}
	// B favours the answer if swapped is true.
	b := ballot{favours: (letter == "B") == swapped, probability: 1}
	if p, ok := feature.Classes(reply.LogProbs, []string{"A", "B"}); ok {
		b.probability = p[strings.Index("AB", letter)]
	}
	return b, nil
}

// view returns the template data for an answer and another one, which can be nil.
func (v *verifier) view(req *sdk.VerifyRequest, other *sdk.Answer, swapped bool) view {
	see := view{
		Task: v.cut(task(req.Query)), Answer: v.cut(textAndCalls(req.Answer)), Criteria: v.config.Criteria,
		Options: [2]string{acceptable, "The answer is not acceptable."},
		Mark:    v.mark(req.Query),
		Calls:   len(req.Answer.ToolCalls) > 0 || other != nil && len(other.ToolCalls) > 0,
	}
	if see.Calls {
		see.Options[0] = "The answer is acceptable: the right next step, with the right arguments."
	}
	if other != nil {
		see.Other = v.cut(textAndCalls(other))
		see.Options = [2]string{"Answer 1 is better.", "Answer 2 is better."}
	}
	switch {
	case swapped && other != nil:
		see.Answer, see.Other = see.Other, see.Answer
	case swapped:
		see.Options[0], see.Options[1] = see.Options[1], see.Options[0]
	}
	return see
}

// mark returns the mark of a conversation. It stays the same in all its prompts, which providers therefore cache up to
// the new messages.
func (v *verifier) mark(query *sdk.Query) string {
	mac := hmac.New(sha256.New, v.secret)
	if query != nil {
		first := slices.IndexFunc(query.Messages, func(m sdk.Message) bool { return m.Role == sdk.RoleUser })
		mac.Write([]byte(task(&sdk.Query{Messages: query.Messages[:first+1]})))
	}
	return strings.ToUpper(hex.EncodeToString(mac.Sum(nil)[:13]))
}

// marks may stand around a letter and say nothing.
const marks = `[^\pL\pN?~≠¬✗✘❌👎]*`

var (
	standsAlone = regexp.MustCompile(`\b[AB]\b`)
	article     = regexp.MustCompile(`^A +\p{Ll}`)
	named       = regexp.MustCompile(`^A +(?:or|and|is|seems|because|since)\b`)
	sentenceEnd = regexp.MustCompile(`[.!?;]["')*]*\s+|\b(?i:so|therefore|thus|hence)[\s,:]+`)
	// clauseEnd parts a reason from the choice that follows from it.
	clauseEnd = regexp.MustCompile(`[:：—]|,\s+(?i:the|my|i)\s`)
	// choosing is what stands before a letter that is chosen, and settled what stands behind it. After what is explicit,
	// a reason may say anything.
	choosing = regexp.MustCompile(`(?i)(?:^|[:.!?;,：—]|答案是|\b(?:so|hence|therefore|thus|answer|boxed|option|choice|verdict|letter|reply|is|choose|chose|pick|select|prefer|with|for|(?:must|would|should|has to) be|it['’]s|i['’]d say|antwort ist|ich wähle|réponse est|respuesta es))` + marks + `$`)
	explicit = regexp.MustCompile(`(?i)\b(?:choose|chose|pick|select|go with|(?:answer|choice|verdict) is|(?:answer|choice|verdict):)[\s"'(*\x60]*$`)
	settled  = regexp.MustCompile(`^` + marks + `(?:</\w+>` + marks + `)?$|^["'*\x60]*(?:[.:;()–—-]|\s+[(–—-]|,[^,]*$|,?\s+(?:because|since|as|it)\s)|^"\s*,|^["')*\x60]*\s+(?:is|seems)\s+(?:the\s+)?(?:right|correct|true|better|best|acceptable)\b`)
	// refuting contradicts an option, and denying one that itself refutes. What is flawless denies that.
	refuting = regexp.MustCompile(`(?i)\?|n['’]t\b|\b(?:not|no|none|never|cannot|cant|dont|doesnt|isnt|neither|nor|without|wrong|false|incorrect|invalid|unacceptable|inferior|worse|except|reject\w*|disagree\w*|doubt\w*|refut\w*|exclud\w*|rul\w+ out|fail\w*|lack\w*|miss\w*|mistake\w*|errors?|flaw\w*|problem\w*|issues?|bugs?|bad|poor|off)\b`)
	denying  = regexp.MustCompile(`(?i)(?:^\W*|\b(?:answer|it)\s+is\s+)(?:acceptable|correct|right|complete)\b|^\W*[.:;()–—-]\W*(?:is|was)\b|^\W*(?:no|false)\W*$|\b(?:neither|reject|(?:wrong|false|bad|not\s+the\s+\w+)\s+(?:option|choice|letter|one))\b`)
	flawless = regexp.MustCompile(`(?i)\b(?:(?:no|without|(?:not|\w+n['’]t)\s+\w+\s+any)\s+(?:\w+\s+)?(?:errors?|mistakes?|flaws?|problems?|issues?|bugs?)|(?:not|nothing(?:\s+is)?)\s+(?:wrong|incorrect|missing))\b`)
)

// parseLetter returns the letter that a reply chooses: the only one in the last line that has one, if that line states
// a choice. One that speaks of a letter otherwise, such as to refute it, chooses nothing. The article A at the beginning
// of a sentence does not count.
func parseLetter(reply string, options [2]string) (string, error) {
	if strings.TrimSpace(reply) == "" {
		return "", errors.New("its reply is empty")
	}
	for _, line := range slices.Backward(strings.Split(strings.ReplaceAll(reply, "_", " "), "\n")) {
		letters := slices.DeleteFunc(standsAlone.FindAllStringIndex(line, -1), func(at []int) bool { return isArticle(line[:at[0]], line[at[0]:]) })
		if len(letters) == 0 {
			continue
		}
		last := letters[len(letters)-1]
		choice := line[last[0]:last[1]]
		if slices.ContainsFunc(letters, func(at []int) bool { return line[at[0]:at[1]] != choice }) {
			return "", fmt.Errorf("its reply chooses both A and B: %.80q", line)
		}
		if !chooses(line[:last[0]], line[last[1]:], options[strings.Index("AB", choice)]) {
			return "", fmt.Errorf("its reply names %s without plainly choosing it: %.80q", choice, line)
		}
		return choice, nil
	}
	return "", fmt.Errorf("its reply chooses neither A nor B: %.80q", reply)
}

// chooses reports whether the text around the last naming of an option chooses it. Words that refute count against any
// option in the clause that names it; in a reason, only against one that does not refute as well.
func chooses(before, after, option string) bool {
	sentence := lastPart(before, sentenceEnd)
	clause := lastPart(sentence, clauseEnd)
	reason := strings.TrimSuffix(sentence, clause)
	if !explicit.MatchString(before) {
		reason += after
	}
	contradicting := refuting
	if refuting.MatchString(option) {
		contradicting = denying
	}
	reason = flawless.ReplaceAllString(reason, "it is right")
	return choosing.MatchString(before) && settled.MatchString(after) && !refuting.MatchString(clause) && !contradicting.MatchString(reason)
}

// lastPart returns what stands behind the last of the ends in a text.
func lastPart(text string, ends *regexp.Regexp) string {
	parts := ends.Split(text, -1)
	return parts[len(parts)-1]
}

// isArticle reports whether a text behind another one begins with an article.
func isArticle(before, text string) bool {
	return article.MatchString(text) && !named.MatchString(text) && strings.TrimSpace(lastPart(before, sentenceEnd)) == ""
}

func task(query *sdk.Query) string {
	if query == nil {
		return ""
	}
	var b strings.Builder
	for _, message := range query.Messages {
		for _, part := range message.Parts {
			switch part.Kind {
			case sdk.PartText:
				fmt.Fprintf(&b, "%s: %s\n", message.Role, part.Text)
			case sdk.PartToolCall:
				fmt.Fprintf(&b, "%s calls %s %s\n", message.Role, part.ToolCall.Name, part.ToolCall.Arguments)
			case sdk.PartToolResult:
				fmt.Fprintf(&b, "tool %s: %s\n", part.ToolResult.Name, part.ToolResult.Content)
			default:
				fmt.Fprintf(&b, "%s: [%s]\n", message.Role, part.Kind)
			}
		}
	}
	return strings.TrimSpace(b.String())
}

func textAndCalls(answer *sdk.Answer) string {
	var b strings.Builder
	b.WriteString(answer.Text)
	for _, call := range answer.ToolCalls {
		fmt.Fprintf(&b, "\ncalls %s %s", call.Name, call.Arguments)
	}
	return strings.TrimSpace(b.String())
}

func (v *verifier) cut(s string) string {
	if len(s) <= v.config.MaxChars {
		return s
	}
	// A rune that is cut in half is left out.
	half := v.config.MaxChars / 2
	head, tail := strings.ToValidUTF8(s[:half], ""), strings.ToValidUTF8(s[len(s)-half:], "")
	left := utf8.RuneCountInString(s) - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	return fmt.Sprintf("%s\n[... %d characters left out ...]\n%s", head, left, tail)
}
