package policies

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// The faulty line is shown up to a readable length, with the position counted in characters.
func TestSnippet(t *testing.T) {
	long := strings.Repeat("é", 159)
	for name, c := range map[string]struct {
		src           string
		start, end    int
		line          string
		column, width int
	}{
		"the first line":     {"a = 1\nb = 2\n", 4, 5, "a = 1", 5, 1},
		"the second line":    {"a = 1\nb = 22\n", 10, 12, "b = 22", 5, 2},
		"the last line":      {"a = 1\nb = 22", 10, 12, "b = 22", 5, 2},
		"the line's begin":   {"a = 1\nb = 2\n", 6, 7, "b = 2", 1, 1},
		"several lines":      {"a = [\n  1\n]\n", 4, 11, "a = [", 5, 1},
		"Windows":            {"a = 1\r\nb = 2\r\n", 11, 12, "b = 2", 5, 1},
		"other letters":      {"é = ö\n", 5, 7, "é = ö", 5, 1},
		"no UTF-8":           {"\xff = \xfe\n", 4, 5, "? = ?", 5, 1},
		"beyond the end":     {"a = 1", 90, 99, "a = 1", 6, 0},
		"before the begin":   {"a = 1", -3, 1, "a = 1", 1, 1},
		"as long as is read": {long + "x", 2, 5, long + "x", 2, 2},
		"longer":             {long + "xy", 2, 5, long + "x…", 2, 2},
		"to its end":         {long + "xyz", 0, 321, long + "x…", 1, 159},
		"the last character": {long + "xy", 318, 320, long + "x…", 160, 1},
		"behind it":          {long + "xyz", 319, 320, long + "x…", 0, 0},
	} {
		line, column, width := snippet([]byte(c.src), hcl.Range{Start: hcl.Pos{Byte: c.start}, End: hcl.Pos{Byte: c.end}})
		if line != c.line || column != c.column || width != c.width {
			t.Errorf("%s: %q at %d, %d wide; want %q at %d, %d wide", name, line, column, width, c.line, c.column, c.width)
		}
	}
}

// A diagnostic shows the fields that are set, and marks the position below its line.
func TestDiagnosticAsText(t *testing.T) {
	for _, c := range []struct {
		d    diagnostic
		want string
	}{
		{diagnostic{Summary: "there is no model"}, "error: there is no model"},
		{diagnostic{Severity: schema.Warning, Summary: "s", File: "p.hcl", Where: "budget", Detail: "one\ntwo", Hint: "mend it"}, "warning: s\n  p.hcl, in budget\n  one\n  two\n  mend it"},
		{diagnostic{Summary: "s", File: "p.hcl", Line: 12, Snippet: "\ta = 1", Column: 4, Width: 3}, "error: s\n  p.hcl:12\n  12 | \ta = 1\n     | \t  ^^^"},
		{diagnostic{Summary: "s", File: "p.hcl", Line: 2, Snippet: "a", Column: 9}, "error: s\n  p.hcl:2\n  2 | a\n    |  ^"},
		{diagnostic{Summary: "s", File: "--set", Snippet: "a=1", Column: 3, Width: 1}, "error: s\n  --set\n   | a=1\n   |   ^"},
		{diagnostic{Summary: "s", File: "p.hcl", Line: 2, Snippet: "key = [secret]"}, "error: s\n  p.hcl:2\n  2 | key = [secret]"},
	} {
		if got := c.d.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	warning, fault := diagnostic{Severity: schema.Warning, Summary: "w"}, diagnostic{Summary: "e"}
	for _, c := range []struct {
		list  Diagnostics
		head  string
		fatal bool
	}{
		{nil, "0 warnings", false},
		{Diagnostics{warning}, "1 warning", false},
		{Diagnostics{warning, warning}, "2 warnings", false},
		{Diagnostics{fault}, "1 error", true},
		{Diagnostics{fault, warning, fault}, "2 errors and 1 warning", true},
	} {
		var out bytes.Buffer
		if err := c.list.Write(&out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if want := "the policy has " + c.head + "\n"; !strings.HasPrefix(c.list.Error(), want) || c.list.HasErrors() != c.fatal {
			t.Errorf("%q, %v; want %q, %v", c.list.Error(), c.list.HasErrors(), want, c.fatal)
		}
		if len(c.list) > 0 && strings.TrimRight(text, "\n") != strings.TrimSpace(strings.SplitN(c.list.Error(), "\n", 2)[1]) || strings.HasPrefix(text, "\n") || strings.HasSuffix(text, "\n\n") {
			t.Errorf("%q of %v", text, c.list)
		}
	}
}

// Texts that are too long are truncated between two characters.
func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("a", 2000):        strings.Repeat("a", 2000),
		strings.Repeat("a", 2001):        strings.Repeat("a", 2000) + "…",
		strings.Repeat("a", 1999) + "éa": strings.Repeat("a", 1999) + "…",
	} {
		if got := clip(text); got != want {
			t.Errorf("%d bytes become %d, want %d", len(text), len(got), len(want))
		}
	}
}

// The most similar name is suggested if it differs by at most two letters, or by one in three.
func TestDidYouMean(t *testing.T) {
	for _, c := range []struct {
		given string
		names []string
		want  string
	}{
		{"smal", []string{"large", "small"}, "small"},
		{"SMALL", []string{"small"}, "small"},
		{"xs", []string{"ys", "xss"}, "ys"}, // the first of equals
		{"ab", []string{"cd"}, "cd"},
		{"abc", []string{"def"}, ""},
		{"abcdefghi", []string{"abcdefxyz"}, "abcdefxyz"},
		{"abcdefgh", []string{"abcdexyz"}, ""},
		{"abc", []string{"abcde"}, "abcde"},
		{"abc", []string{"abcdef"}, ""},
		{"mod", []string{"mod_of_all"}, "mod_of_all"},
		{"mo", []string{"mo_of_all"}, ""},
		{"small", []string{"small"}, ""}, // it is that already
		{"abcd", []string{"abxx", "abcx"}, "abcx"},
		{strings.Repeat("n", 64), []string{strings.Repeat("n", 63) + "m"}, strings.Repeat("n", 63) + "m"},
		{strings.Repeat("n", 65), []string{strings.Repeat("n", 64) + "m"}, ""},
		{"small", append(make([]string, maxCompared-1), "smal"), "smal"},
		{"small", append(make([]string, maxCompared), "smal"), ""},
	} {
		want := ""
		if c.want != "" {
			want = "Did you mean \"" + c.want + "\"?"
		}
		if got := didYouMean(c.given, c.names); got != want {
			t.Errorf("%q among %.100q: %s, want %s", c.given, c.names, got, want)
		}
	}
	for _, c := range []struct {
		given string
		names []string
		want  string
	}{
		{"a", nil, "None is defined."},
		{"smal", []string{"small"}, `Did you mean "small"?`},
		{"tiny", []string{"average"}, `Choose among "average".`},
		{"smal", []string{"small", "large"}, `Did you mean "small"? Choose among "small", "large".`},
	} {
		if got := suggest(c.given, c.names); got != c.want {
			t.Errorf("%q: %s, want %s", c.given, got, c.want)
		}
	}
}

// Unquoting a quoted text gives the text again.
func TestQuoteAndNumber(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "a b~": `"a b~"`, `a"b`: `"a\"b"`, `\`: `"\\"`, "${a}": `"$${a}"`, "%{a}": `"%%{a}"`, "a\nb": `"a\nb"`, "é": `"é"`, "$": `"$"`,
	} {
		if got := quote(text); got != want {
			t.Errorf("%q is quoted %s, want %s", text, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 1e21: "1000000000000000000000", 0.000001: "0.000001", 2.5: "2.5"} {
		if got := number(n); got != want {
			t.Errorf("%v is written %s, want %s", n, got, want)
		}
	}
}

func TestStatedMean(t *testing.T) {
	for _, c := range []struct {
		q    Quality
		want float64
	}{{Quality{0.5, 0.25}, 0}, {Quality{0.5, 0.2}, 0.5}, {Quality{0.6, 0.25}, 0.6}} {
		if got := c.q.StatedMean(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.q, got, c.want)
		}
	}
}
