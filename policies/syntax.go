package policies

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// syntax records what HCL itself found wrong. What people do wrong most is said
// in our words, and what only follows from it is left out.
func (l *loader) syntax(diags hcl.Diagnostics, where string) {
	if len(diags) > maxDiagnostics+1 {
		diags = diags[:maxDiagnostics+1]
	}
	curly := map[int]bool{}
	for _, d := range diags {
		if d.Subject != nil && curlyQuotes(d) {
			curly[d.Subject.Start.Line] = true
		}
	}
	reported := map[int]bool{}
	for _, d := range diags {
		if d.Subject == nil {
			l.report(severity(d), origin{where: where}, lowerFirst(d.Summary), d.Detail, "")
			continue
		}
		at := origin{rng: *d.Subject, where: where}
		line := d.Subject.Start.Line
		if curly[line] && (reported[line] || !curlyQuotes(d)) {
			continue // it only follows from the quotes
		}
		reported[line] = true
		summary, hint, last := l.inOurWords(d)
		if summary == "" {
			l.report(severity(d), at, lowerFirst(d.Summary), d.Detail, hint)
		} else {
			l.report(severity(d), at, summary, "", hint)
		}
		if last {
			return // the rest was read as part of a text
		}
	}
}

var (
	// withoutEquals finds an argument that is followed by its value, or by a colon.
	withoutEquals = regexp.MustCompile(`^\s*([\pL\pN_-]+)(?:\s+"|\s*:)`)
	// withoutValue finds an argument that ends with its equals sign.
	withoutValue = regexp.MustCompile(`^\s*([\pL\pN_-]+)\s*=\s*(?:#.*|//.*)?$`)
)

// inOurWords returns what is wrong and how it is mended, where HCL's words are about
// its own inside, and whether what follows can be trusted no more. An empty summary
// keeps HCL's.
func (l *loader) inOurWords(d *hcl.Diagnostic) (summary, hint string, last bool) {
	src := l.sources[d.Subject.Filename]
	name := string(d.Subject.SliceBytes(src))
	line, _, _ := snippet(src, *d.Subject)
	switch d.Summary {
	case "Attribute redefined":
		return name + " is set twice", "Remove one of the two.", false
	case "Invalid single-argument block definition":
		return "a block on one line holds one argument", "Put each argument on a line of its own, and the closing brace too.", false
	case "Unclosed configuration block":
		return "this block is never closed", "Add } at its end. When it has one, a brace within it is missing.", false
	case "Invalid multi-line string", "Unterminated template string":
		if bytes.Contains(src, []byte("<<")) && !strings.Contains(line, `"`) {
			return "the text that << began never ends", "Put the word that follows << alone on a line, after the text.", true
		}
		return "this text has no closing quote", `Add " before the end of the line.`, true
	case "Missing item separator":
		return "a comma is missing", `Put one between the elements of a list: ["a", "b"].`, false
	case "Invalid block definition", "Argument or block definition required":
		if m := withoutEquals.FindStringSubmatch(line); m != nil && !strings.HasSuffix(strings.TrimSpace(line), "{") {
			return m[1] + " has no equals sign", fmt.Sprintf("Write %s = ... for an argument, %s { ... } for a block.", m[1], m[1]), false
		}
	case "Invalid expression":
		if m := withoutValue.FindStringSubmatch(line); m != nil {
			return m[1] + " has no value", fmt.Sprintf("Write %s = ..., or leave the line out for the default.", m[1]), false
		}
	case "Invalid character":
		switch {
		case curlyQuotes(d):
			return "curly quotes", `Write straight ones: "text". Word processors and chats turn them.`, false
		case name == "'":
			return "single quotes", `Write double ones: "text".`, false
		}
	}
	return "", "", false
}

func curlyQuotes(d *hcl.Diagnostic) bool {
	return d.Summary == "Invalid character" && strings.Contains(d.Detail, "Curly quotes")
}

func severity(d *hcl.Diagnostic) schema.Severity {
	if d.Severity == hcl.DiagWarning {
		return schema.Warning
	}
	return schema.Error
}

// lowerFirst returns a sentence of HCL's as ours begin.
func lowerFirst(text string) string {
	return strings.ToLower(text[:min(1, len(text))]) + text[min(1, len(text)):]
}
