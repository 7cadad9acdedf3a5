package policies

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/redact"
)

// A diagnostic is one fault of a policy. It contains no secrets.
type diagnostic struct {
	// Severity is [schema.Error], which stops the policy from loading, or [schema.Warning], for a policy that is
	// valid but probably not what was meant.
	Severity schema.Severity `json:"severity"`
	// Summary describes the fault in one line.
	Summary string `json:"summary"`
	// Detail has further explanation, if any.
	Detail string `json:"detail,omitempty"`
	// Hint tells how to fix the fault.
	Hint string `json:"hint,omitempty"`
	// File is the file, or "env NAME" or "--set" for the other layers. Line and Column begin at 1, and are 0
	// if the diagnostic has no position.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Where names the block: `model "small"`.
	Where string `json:"where,omitempty"`
	// Snippet is the text of the line, and Width the length of the marked part in characters.
	Snippet string `json:"snippet,omitempty"`
	Width   int    `json:"width,omitempty"`
}

// String returns the diagnostic as several lines without a final newline.
func (d diagnostic) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", d.Severity, d.Summary)
	if d.File != "" {
		b.WriteString("  " + d.File)
		if d.Line > 0 {
			fmt.Fprintf(&b, ":%d", d.Line)
		}
		if d.Where != "" {
			b.WriteString(", in " + d.Where)
		}
		b.WriteString("\n")
	}
	if d.Snippet != "" {
		d.writeSnippet(&b)
	}
	for _, text := range []string{d.Detail, d.Hint} {
		if text != "" {
			b.WriteString("  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// writeSnippet writes the faulty line with a marker below the position.
func (d diagnostic) writeSnippet(b *strings.Builder) {
	number := strconv.Itoa(d.Line)
	if d.Line == 0 {
		number = ""
	}
	fmt.Fprintf(b, "  %s | %s\n", number, d.Snippet)
	if d.Column == 0 {
		return
	}
	lead := []rune(d.Snippet)
	lead = lead[:min(d.Column-1, len(lead))]
	for i, r := range lead {
		if r != '\t' {
			lead[i] = ' '
		}
	}
	fmt.Fprintf(b, "  %s | %s%s\n", strings.Repeat(" ", len(number)), string(lead), strings.Repeat("^", max(1, d.Width)))
}

// Diagnostics lists all faults of a policy. As an error it prints all of them.
type Diagnostics []diagnostic

// Error returns all diagnostics and their number.
func (d Diagnostics) Error() string {
	var b strings.Builder
	for _, one := range d {
		b.WriteString("\n" + one.String() + "\n")
	}
	errors, warnings := d.count()
	head := plural(errors, "error")
	switch {
	case errors == 0:
		head = plural(warnings, "warning")
	case warnings > 0:
		head += " and " + plural(warnings, "warning")
	}
	return "the policy has " + head + "\n" + strings.TrimRight(b.String(), "\n")
}

// HasErrors reports whether any diagnostic is an error.
func (d Diagnostics) HasErrors() bool {
	n, _ := d.count()
	return n > 0
}

// Write writes the diagnostics, separated by blank lines.
func (d Diagnostics) Write(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(namesOf(d, func(one diagnostic) string { return one.String() + "\n" }), "\n"))
	return err
}

func (d Diagnostics) count() (errors, warnings int) {
	for _, one := range d {
		if one.Severity == schema.Warning {
			warnings++
		} else {
			errors++
		}
	}
	return errors, warnings
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

type origin struct {
	rng   hcl.Range
	where string
}

func (l *loader) complain(at origin, summary, detail, hint string) {
	l.report(schema.Error, at, summary, detail, hint)
}

func (l *loader) warn(at origin, summary, detail, hint string) {
	l.report(schema.Warning, at, summary, detail, hint)
}

func (l *loader) report(s schema.Severity, at origin, summary, detail, hint string) {
	if l.reported[s]++; l.reported[s] > maxDiagnostics {
		if l.reported[s] == maxDiagnostics+1 {
			l.diags = append(l.diags, diagnostic{Severity: s, Summary: fmt.Sprintf("more than %d %ss: the rest are omitted", maxDiagnostics, s)})
		}
		return
	}
	d := diagnostic{Severity: s, Summary: clip(summary), Detail: clip(detail), Hint: clip(hint), Where: clip(at.where)}
	if at.rng.Filename != "" {
		d.File = at.rng.Filename
		if src, ok := l.sources[at.rng.Filename]; ok && at.rng.Start.Line > 0 {
			if !isOverlay(d.File) {
				d.Line = at.rng.Start.Line
			}
			d.Snippet, d.Column, d.Width = snippet(src, at.rng)
		}
	}
	l.diags = append(l.diags, d)
}

func clip(text string) string {
	const longest = 2000
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// snippet returns the line on which a range begins, the column in characters, and the width of the part of the
// range on that line.
func snippet(src []byte, r hcl.Range) (line string, column, width int) {
	start := min(max(r.Start.Byte, 0), len(src))
	from := bytes.LastIndexByte(src[:start], '\n') + 1
	to := len(src)
	if i := bytes.IndexByte(src[start:], '\n'); i >= 0 {
		to = start + i
	}
	end := min(max(r.End.Byte, start), to)
	line = strings.ToValidUTF8(strings.TrimRight(string(src[from:to]), "\r"), "?")
	column = utf8.RuneCountInString(strings.ToValidUTF8(string(src[from:start]), "?")) + 1
	width = utf8.RuneCountInString(strings.ToValidUTF8(string(src[start:end]), "?"))
	const longest = 160
	if runes := []rune(line); len(runes) > longest {
		line = string(runes[:longest]) + "…"
		width = min(width, max(1, longest-column))
		if column > longest {
			column, width = 0, 0
		}
	}
	return line, column, width
}

// isOverlay reports whether a file name stands for an environment variable or a --set.
func isOverlay(file string) bool {
	return strings.HasPrefix(file, "env "+envPrefix) || strings.HasPrefix(file, "--set")
}

var (
	// secretArgument matches a string that is the value of something named like a key.
	secretArgument = regexp.MustCompile(`(?i)([\w-]*(?:api_?key|token|secret|passw|credential)[\w-]*"?\]?\s*[=:]\s*)("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'(\[{#]{8,})`)
	// secretShape matches keys by their usual form.
	secretShape = regexp.MustCompile(`\b(?:sk|pk|rk|ghp|gho|xox[abp])[-_][A-Za-z0-9_\-]{6,}|\bAIza[0-9A-Za-z_\-]{10,}|\beyJ[0-9A-Za-z_\-]{10,}\.[0-9A-Za-z_\-.]+`)
	numeric     = regexp.MustCompile(`^[0-9.eE+-]+$`)
)

// maskSecrets removes secrets from a text: values read by env, strings written where a secret belongs, and whatever
// looks like a key.
func maskSecrets(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, secretMask)
		}
	}
	text = secretArgument.ReplaceAllStringFunc(text, func(m string) string {
		parts := secretArgument.FindStringSubmatch(m)
		if numeric.MatchString(parts[2]) || strings.Contains(parts[2], secretMask) || strings.HasPrefix(parts[2], "local.") {
			return m
		}
		return parts[1] + secretMask
	})
	return redact.Addresses(secretShape.ReplaceAllString(text, secretMask))
}

func (l *loader) finish() Diagnostics {
	slices.SortFunc(l.secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	l.secrets = slices.Compact(l.secrets)
	for i := range l.diags {
		d := &l.diags[i]
		before := d.Snippet
		for _, text := range []*string{&d.Summary, &d.Detail, &d.Hint, &d.Where, &d.Snippet, &d.File} {
			*text = maskSecrets(*text, l.secrets)
		}
		if d.Snippet != before { // the columns are no longer valid
			d.Column, d.Width = 0, 0
		}
	}
	slices.SortStableFunc(l.diags, func(a, b diagnostic) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(l.diags)
}
