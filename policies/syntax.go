package policies

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// reportSyntax reports HCL's diagnostics. Frequent mistakes are reworded, and errors that follow from them dropped.
func (l *loader) reportSyntax(diags hcl.Diagnostics, where string) {
	if len(diags) > maxDiagnostics+1 {
		diags = diags[:maxDiagnostics+1]
	}
	curly := map[int]bool{}
	for _, d := range diags {
		if d.Subject != nil && hasCurlyQuotes(d) {
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
		if curly[line] && (reported[line] || !hasCurlyQuotes(d)) {
			continue // a consequence of the quotes
		}
		reported[line] = true
		summary, hint, last := l.reword(d)
		if summary == "" {
			l.report(severity(d), at, lowerFirst(d.Summary), d.Detail, hint)
		} else {
			l.report(severity(d), at, summary, "", hint)
		}
		if last {
			return // the rest was read as part of a string
		}
	}
}

var (
	// missingEquals matches an argument that is followed directly by its value, or by a colon.
	missingEquals = regexp.MustCompile(`^\s*([\pL\pN_-]+)(?:\s+"|\s*:)`)
	// missingValue matches an argument that ends with its equals sign.
	missingValue = regexp.MustCompile(`^\s*([\pL\pN_-]+)\s*=\s*(?:#.*|//.*)?$`)
)

// reword returns a summary and a hint in place of messages about HCL's internals, and whether all later
// diagnostics follow from this one. An empty summary keeps HCL's.
func (l *loader) reword(d *hcl.Diagnostic) (summary, hint string, last bool) {
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
			return "the text after << has no end", "Put the word that follows << alone on a line, after the text.", true
		}
		return "this text has no closing quote", `Add " before the end of the line.`, true
	case "Missing item separator":
		return "a comma is missing", `Put one between the elements of a list: ["a", "b"].`, false
	case "Invalid block definition", "Argument or block definition required":
		if m := missingEquals.FindStringSubmatch(line); m != nil && !strings.HasSuffix(strings.TrimSpace(line), "{") {
			return m[1] + " has no equals sign", fmt.Sprintf("Write %s = ... for an argument, %s { ... } for a block.", m[1], m[1]), false
		}
	case "Invalid expression":
		if m := missingValue.FindStringSubmatch(line); m != nil {
			return m[1] + " has no value", fmt.Sprintf("Write %s = ..., or leave the line out for the default.", m[1]), false
		}
	case "Invalid character":
		switch {
		case hasCurlyQuotes(d):
			return "curly quotes", `Write straight ones: "text". Word processors and chats turn them.`, false
		case name == "'":
			return "single quotes", `Write double ones: "text".`, false
		}
	}
	return "", "", false
}

func hasCurlyQuotes(d *hcl.Diagnostic) bool {
	return d.Summary == "Invalid character" && strings.Contains(d.Detail, "Curly quotes")
}

func severity(d *hcl.Diagnostic) schema.Severity {
	if d.Severity == hcl.DiagWarning {
		return schema.Warning
	}
	return schema.Error
}

func lowerFirst(text string) string {
	return strings.ToLower(text[:min(1, len(text))]) + text[min(1, len(text)):]
}
