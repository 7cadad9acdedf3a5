package patch

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// name is the path that a line announces for the block after it.
type name struct {
	path string
	// spaced, if not empty, is an alternative path, used if it is in the tree: a line of several words can be
	// a path with spaces.
	spaced string
	// loose means that the line has other words besides the path, so the block may be only an illustration.
	loose bool
	// isTitle means that the line begins with the path and continues after a dash, colon or parenthesis.
	isTitle bool
	// sticky means that prose can stand between the line and the block.
	sticky bool
}

var (
	// Decoration before a path: marks of headings, lists, quotations, comments, tags, bold text and rules.
	decoration   = regexp.MustCompile(`^(?:\s+|>|#{1,6}\s|[-*+•]\s|\d+[.)]\s|//+|/\*+|<!--|-{2,}|={3,}|;+|"""|'''|\*{1,3}|</?\w[^<>]*>)+`)
	headingMarks = regexp.MustCompile(`^\s*(?:#{1,6}\s|\*\*|\d+[.)]\s|<\w)`)
	bulletMarks  = regexp.MustCompile(`^\s*[-*+•]\s`)
	commentMarks = regexp.MustCompile(`^\s*(?://|#|--|;|/\*|<!--|"""|''')`)
	fileWord     = regexp.MustCompile(`(?i)^(?:(?:new|updated|modified|changed|created|full|complete|the) ){0,2}(?:file|path|filename|file name|filepath|file path|new|updated|modified)(?: \d+)?[\s:*_]*$`)
	remark       = regexp.MustCompile(`^[\s*_]*(?:\([\w ,;-]+\)|\[[\w ,;-]+\])?[\s*_]*$`)
	excerpt      = regexp.MustCompile(`(?i)\b(?:lines?|excerpts?|part|partial|snippet|relevant)\b`)
	titleRest    = regexp.MustCompile(`^\s*[-–—:(]`)
	pathForm     = regexp.MustCompile(`^[\p{L}\p{N}_@+.\-/~\[\]()\\:$]*[\p{L}\p{N}_)\]]$`)
	spacedForm   = regexp.MustCompile(`^[\w.\-]+(?: [\w.\-]+)*/[\w.\-/ ]*[\w\-]\.\w+$|^[\w\-]+(?: [\w\-]+)+\.\w+$`)
	wordToken    = regexp.MustCompile("`[^`]+`|\\*\\*[^*]+\\*\\*|\"[^\"]+\"|([^\\s`*\"',;]+)")
	// A name without an extension, such as VERSION; in a line it is quoted or stands alone.
	capitals     = regexp.MustCompile(`^[A-Z][A-Z0-9_]{3,}$`)
	capitalsLine = regexp.MustCompile("[`*][A-Z][A-Z0-9_]{3,}[`*]|^[A-Z][A-Z0-9_]{3,}$")
	link         = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	// Words that introduce an illustration: in a line without a path, in a line with one, after the path, and
	// before it.
	illustrationLine   = regexp.MustCompile(`(?i)\b(?:examples?|usage|outputs?|prints?|run it|try it)\b|\b(?:before|was|were|old|original|currently|bug|problem|issue)\W*$`)
	illustration       = regexp.MustCompile(`(?i)\b` + illustrationWords)
	illustrationAfter  = regexp.MustCompile(`(?i)^\W*` + illustrationWords)
	illustrationBefore = regexp.MustCompile(`(?i)\b(?:uses?(?: of\b| it\b|\W*$)|calls? it|called|runs?|running|verify|test it|see|like|from)\b`)
)

const illustrationWords = `(?:examples?|usage|outputs?|prints?|run it|try it|before|was|currently|old)\b`

// lineName returns the file that a line outside of a block announces for the block after it.
func lineName(line string) (name, bool) {
	found, ok := nameOf(line)
	line = strings.TrimSpace(line)
	if !ok || !found.loose {
		return found, ok
	}
	rest := strings.TrimRight(line, "*_ ")
	if !found.sticky && !found.isTitle && !strings.HasSuffix(rest, ":") {
		found.path = "" // it may still be a path with spaces
	}
	return found, found.path != "" || found.spaced != ""
}

// commentName returns the file that a comment on the first line of a block names.
func commentName(line string) (string, bool) {
	found, ok := nameOf(line)
	ok = ok && !found.loose && commentMarks.MatchString(line) && strings.ContainsAny(found.path, "./")
	return found.path, ok
}

// nameOf finds the path in a line that, apart from decoration, is a path, perhaps with a word for file, or
// has a path among other words. A line with several paths that does not begin with one names none.
func nameOf(line string) (name, bool) {
	if !mayName(line) {
		return name{}, false
	}
	marks, core := splitDecoration(line)
	core = link.ReplaceAllString(core, "`$1`")
	found := name{sticky: headingMarks.MatchString(marks)}
	whole := strings.Trim(core, "`\"")
	if inner, ok := strings.CutPrefix(whole, "("); ok && strings.HasSuffix(inner, ")") {
		whole = strings.Trim(inner[:len(inner)-1], "`\"")
	}
	if looksLikePath(whole) && pathForm.MatchString(whole) {
		found.path = cleanPath(whole)
		return found, true
	}
	if spacedForm.MatchString(whole) {
		found.spaced = cleanPath(whole)
	}
	tokens := pathTokens(core)
	if len(tokens) == 0 {
		found.loose = true
		return found, found.spaced != ""
	}
	return found.fromTokens(tokens, marks)
}

// fromTokens returns the path among other words: the first token, if the line begins with it or has no other.
func (n name) fromTokens(tokens []token, marks string) (name, bool) {
	t := tokens[0]
	isOther := func(other token) bool { return other.text != t.text }
	if t.before != "" && slices.ContainsFunc(tokens, isOther) {
		return name{}, false
	}
	n.path = cleanPath(t.text)
	n.isTitle = t.before == "" && titleRest.MatchString(t.after) && !bulletMarks.MatchString(marks)
	n.loose = !remark.MatchString(t.after) || excerpt.MatchString(t.after) || t.before != "" && !fileWord.MatchString(t.before)
	if n.loose && !t.isFile() {
		return name{}, false
	}
	return n, true
}

// isFile reports whether a path among other words is a file to change, rather than a constant, a name such
// as Node.js in a sentence, or part of an illustration.
func (t *token) isFile() bool {
	isInSentence := t.isBare && t.before != "" && strings.TrimSpace(t.after) != ""
	isIllustration := illustration.MatchString(t.before) || illustrationAfter.MatchString(t.after) || illustrationBefore.MatchString(t.before)
	return !isInSentence && !isIllustration && !capitals.MatchString(t.text)
}

// splitDecoration returns the marks at the beginning of a line, and the rest without those at its end.
func splitDecoration(line string) (marks, core string) {
	marks = decoration.FindString(line)
	core = line[len(marks):]
	for length := -1; length != len(core); {
		length = len(core)
		core = strings.TrimRight(core, " \t:.,*_=-")
		for _, mark := range []string{"*/", "-->", `"""`, "'''"} {
			core = strings.TrimSuffix(core, mark)
		}
		if at := strings.LastIndexByte(core, '<'); at >= 0 && strings.HasSuffix(core, ">") {
			core = core[:at]
		}
	}
	return marks, core
}

// token is a path in a line, with the text around it.
type token struct {
	text, before, after string
	isBare              bool
}

// pathTokens returns the words of a line that look like paths: quoted, or with a known extension.
func pathTokens(line string) (tokens []token) {
	for _, at := range wordToken.FindAllStringSubmatchIndex(line, -1) {
		isBare := at[len(at)-1] >= 0
		text := strings.Trim(line[at[0]:at[1]], "`*\"")
		if isBare {
			text = strings.TrimRight(text, ".:")
		}
		isSpaced := !isBare && spacedForm.MatchString(text)
		isPath := looksLikePath(text) && pathForm.MatchString(text) && (!isBare || hasKnownExtension(text))
		if isPath || isSpaced {
			before := strings.TrimSpace(line[:at[0]])
			if !strings.ContainsFunc(before, unicode.IsLetter) {
				before = ""
			}
			tokens = append(tokens, token{text, before, line[at[1]:], isBare})
		}
	}
	return tokens
}

func infoName(info string) string {
	if match := infoPath.FindStringSubmatch(info); match != nil {
		return cleanPath(match[1] + match[2])
	}
	for field := range strings.FieldsSeq(info) {
		field = strings.Trim(field, "(){}[]\"'`")
		field = field[strings.LastIndexByte(field, ':')+1:]
		if looksLikePath(field) && (strings.ContainsAny(field, "./") || strings.Contains(info, ":")) {
			return cleanPath(field)
		}
	}
	return ""
}

var infoPath = regexp.MustCompile(`(?:^|[\s{,])(?:path|file|filename|title|name)\s*[=:]\s*(?:"([^"]+)"|([^\s"}]+))`)

// languages maps a file extension to the other names of its language in info strings.
var languages = map[string][]string{
	".py": {"python", "python3"}, ".js": {"javascript", "node", "jsx"}, ".cjs": {"javascript", "js"}, ".mjs": {"javascript", "js"}, ".ts": {"typescript"}, ".go": {"golang"}, ".rs": {"rust"},
	".rb": {"ruby"}, ".cc": {"cpp", "c++"}, ".cpp": {"c++"}, ".cs": {"csharp", "c#"}, ".kt": {"kotlin"}, ".hs": {"haskell"}, ".pl": {"perl"}, ".sh": shells,
	".c": nil, ".h": {"c", "cpp", "c++"}, ".java": nil, ".md": {"markdown"}, ".json": nil, ".yaml": {"yml"}, ".yml": {"yaml"}, ".toml": nil, ".txt": {"text", "plaintext"}, ".html": nil, ".css": nil, ".sql": nil, ".php": nil, ".swift": nil, ".scala": nil,
	".tsx": {"typescript", "ts"}, ".jsx": {"javascript", "js"},
}

var shells = []string{"bash", "shell", "sh", "zsh", "console", "shell-session"}

// hasKnownExtension reports whether an unquoted word that looks like a file is likely to be one.
func hasKnownExtension(file string) bool {
	_, known := languages[path.Ext(file)]
	return known || strings.Contains(file, "/") && path.Ext(file) != ""
}

func fitsLanguage(file, language string) bool {
	extension := path.Ext(file)
	if slices.Contains(shells, language) {
		return slices.Contains([]string{"", ".sh", ".bash", ".zsh", ".ksh", ".bats"}, extension)
	}
	names, known := languages[extension]
	return language == "" || !known || language == strings.TrimPrefix(extension, ".") || slices.Contains(names, language)
}

// bareFiles are file names without an extension.
var bareFiles = []string{"Makefile", "Dockerfile", "LICENSE", "README", "Gemfile", "Rakefile", "GNUmakefile"}

// mayName is a cheap test that excludes most lines of prose.
func mayName(line string) bool {
	isBare := func(file string) bool { return strings.Contains(line, file) }
	return len(line) <= maxPath && (strings.ContainsAny(line, "./") || capitalsLine.MatchString(line) || slices.ContainsFunc(bareFiles, isBare))
}

// looksLikePath distinguishes paths from prose: they have no spaces, and an extension, a folder, or a
// well-known name.
func looksLikePath(s string) bool {
	if len(s) > 400 || !pathWord.MatchString(s) || strings.Contains(s, "://") {
		return false
	}
	return pathEnd.MatchString(s) || slices.Contains(bareFiles, s) || capitals.MatchString(s) && !illustrationLine.MatchString(s)
}

var (
	pathWord = regexp.MustCompile("^[^ \t\"'`]+$")
	// pathEnd matches an extension, or a name in a folder.
	pathEnd = regexp.MustCompile(`\.[^./]+/*$|/[^/]+$`)
)

// cleanPath returns the canonical form of a path: slash-separated, without a leading ./ and with . and ..
// resolved. Whether it stays inside the tree is checked when the edit is applied.
func cleanPath(s string) string {
	return path.Clean(strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(s, "\\", "/")), "./"))
}
