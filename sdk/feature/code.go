package feature

import (
	"regexp"
	"strings"
	"text/scanner"
)

// codeTokens returns the tokens of a piece of code, one a line, without comments.
// Space counts where a language gives it a meaning: at the beginning of the lines
// of Python, by its depth.
func codeTokens(s string) string {
	s, language := strings.TrimSpace(s), ""
	if rest, ok := strings.CutPrefix(s, "```"); ok {
		language, s, _ = strings.Cut(rest, "\n")
		s = strings.TrimSuffix(strings.TrimRight(s, " \t\n"), "```")
	}
	var out strings.Builder
	if !hashComments(strings.ToLower(strings.TrimSpace(language)), s) {
		scanTokens(&out, s, scanner.ScanComments|scanner.SkipComments)
		return out.String()
	}
	var depths []int
	for line := range strings.Lines(s) {
		line = strings.TrimRight(withoutHash(line), " \t\r\n")
		code := strings.TrimLeft(line, " \t")
		if code == "" {
			continue
		}
		indent := len(strings.ReplaceAll(line[:len(line)-len(code)], "\t", "        "))
		for len(depths) > 0 && depths[len(depths)-1] >= indent {
			depths = depths[:len(depths)-1]
		}
		out.WriteString(strings.Repeat(">", len(depths)) + "\n")
		depths = append(depths, indent)
		scanTokens(&out, code, 0)
	}
	return out.String()
}

var pythonLine = regexp.MustCompile(`(?m)^\s*(?:def \w+\(.*:|class \w+.*:|import \w|from [\w.]+ import )`)

// hashComments reports whether a comment begins with #, and not with //, which
// divides in Python.
func hashComments(language, code string) bool {
	switch language {
	case "python", "py", "python3", "ruby", "rb", "sh", "bash", "shell", "r", "julia", "yaml", "toml":
		return true
	case "":
		return pythonLine.MatchString(code)
	}
	return false
}

// withoutHash cuts the comment off a line. A # in quotes begins none.
func withoutHash(line string) string {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '#':
			return line[:i]
		}
	}
	return line
}

func scanTokens(out *strings.Builder, s string, comments uint) {
	var scan scanner.Scanner
	scan.Init(strings.NewReader(s))
	scan.Error = func(*scanner.Scanner, string) {} // not Go: unclosed quotes are tokens like others
	scan.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanFloats | scanner.ScanStrings | scanner.ScanRawStrings | comments
	for tok := scan.Scan(); tok != scanner.EOF; tok = scan.Scan() {
		out.WriteString(scan.TokenText() + "\n")
	}
}
