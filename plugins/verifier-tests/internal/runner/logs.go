package runner

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// logFile runs any command whose output names its tests in a known format, and judges
// as the harness of SWE-bench does: by the log, which a command that fails must tell
// of some failure.
type logFile struct {
	format string
}

func (*logFile) Name() string { return "log" }

// Confidence: see [Runner].
func (*logFile) Confidence() float64 { return reported }

func (*logFile) Plan(argv []string, _ *Tree, _ string) (*Plan, error) {
	return &Plan{Argv: slices.Clone(argv)}, nil
}

// logReaders read the tests of a log, as the harness does that says of an instance of
// SWE-bench whether it is resolved. Each log is read by lines; the last line about a
// test counts. What a format does not name has not been run.
var logReaders = map[string]func(log string) []Test{
	"pytest": summary(pytestName), "pytest-options": summary(optionName), "matplotlib": summary(buttonName), "pytest-v2": readPytestV2,
	"seaborn": readSeaborn, "sympy": readSympy, "django": readDjango, "unittest": readUnittest,
	"go": byLine(
		logLine{regexp.MustCompile(`^--- PASS: (.+) \(.+\)$`), Pass},
		logLine{regexp.MustCompile(`^--- FAIL: (.+) \(.+\)$`), Fail},
		logLine{regexp.MustCompile(`^--- SKIP: (.+) \(.+\)$`), Skip},
	),
	"cargo": byLine(
		logLine{regexp.MustCompile(`^test\s+(\S+)\s+\.\.\.\s+ok$`), Pass},
		logLine{regexp.MustCompile(`^test\s+(\S+)\s+\.\.\.\s+FAILED$`), Fail},
	),
}

// ReadLog reads the tests of a log in one of the formats of [logReaders].
func ReadLog(format, log string) []Test {
	read := logReaders[format]
	if read == nil {
		return nil
	}
	return read(lineEnds.Replace(log))
}

// lineEnds: the harness reads a log as text, in which each of them ends a line.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// logTests are tests in the order in which a log first names them.
type logTests struct {
	tests []Test
	at    map[string]int
}

func (l *logTests) set(name string, status Status) {
	if i, known := l.at[name]; known {
		l.tests[i].Status = status
		return
	}
	if l.at == nil {
		l.at = map[string]int{}
	}
	l.at[name] = len(l.tests)
	l.tests = append(l.tests, Test{Name: name, Status: status})
}

// logWords are how pytest says that a test has ended. What it calls XPASS is no word
// of the harness: such a test is one that no line names.
var logWords = map[string]Status{"PASSED": Pass, "XFAIL": Pass, "FAILED": Fail, "ERROR": Fail, "SKIPPED": Skip}

// logWord returns the word that a line has at its beginning, or at its end.
func logWord(line string, at func(line, word string) bool) bool {
	for word := range logWords {
		if at(line, word) {
			return true
		}
	}
	return false
}

// counted is the number in SKIPPED [3] file:line, which names no test.
var counted = regexp.MustCompile(`^\[\d+\]$`)

// summary reads the short summary of pytest -rA, one word and one name a line. What
// a name holds behind its first space is lost, to the names of the data sets as well.
func summary(name func(line string, fields []string) string) func(string) []Test {
	return func(log string) []Test {
		var found logTests
		for line := range strings.SplitSeq(log, "\n") {
			fields := strings.Fields(line)
			if !logWord(line, strings.HasPrefix) || len(fields) < 2 || fields[0] == "SKIPPED" && counted.MatchString(fields[1]) {
				continue
			}
			found.set(name(line, fields), logWords[fields[0]])
		}
		return found.tests
	}
}

func pytestName(_ string, fields []string) string { return fields[1] }

var bracketed = regexp.MustCompile(`^(.*?)\[(.*)\]`)

// optionName keeps the last element of a path in brackets: it begins elsewhere on
// every machine.
func optionName(_ string, fields []string) string {
	parts := bracketed.FindStringSubmatch(fields[1])
	if parts == nil {
		return fields[1]
	}
	main, option := parts[1], parts[2]
	if strings.HasPrefix(option, "/") && !strings.HasPrefix(option, "//") && !strings.Contains(option, "*") {
		option = option[strings.LastIndex(option, "/"):]
	}
	return main + "[" + option + "]"
}

var buttons = strings.NewReplacer("MouseButton.LEFT", "1", "MouseButton.RIGHT", "3")

// buttonName: versions of matplotlib print the same buttons in two ways.
func buttonName(line string, _ []string) string { return strings.Fields(buttons.Replace(line))[1] }

var (
	colours = regexp.MustCompile(`\[\d+m`)
	control = regexp.MustCompile(`[\x01-\x1f]`)
)

// readPytestV2 is for summaries whose names have spaces, and for the lines of older
// versions, which end in the word.
func readPytestV2(log string) []Test {
	var found logTests
	for line := range strings.SplitSeq(log, "\n") {
		line = control.ReplaceAllString(colours.ReplaceAllString(line, ""), "")
		if strings.HasPrefix(line, "FAILED") {
			line, _, _ = strings.Cut(line, " - ")
		}
		fields := strings.Fields(line)
		last := len(fields) - 1
		switch {
		case last < 1:
		case logWord(line, strings.HasPrefix):
			if fields[0] != "SKIPPED" || !counted.MatchString(fields[1]) {
				found.set(strings.Join(fields[1:], " "), logWords[fields[0]])
			}
		case logWord(line, strings.HasSuffix):
			found.set(strings.Join(fields[:last], " "), logWords[fields[last]])
		}
	}
	return found.tests
}

// logLine matches a line that says how the test it names has ended.
type logLine struct {
	line   *regexp.Regexp
	status Status
}

// note notes the tests that a line names.
func (l *logTests) note(line string, patterns []logLine) {
	for _, pattern := range patterns {
		if m := pattern.line.FindStringSubmatch(line); m != nil {
			l.set(cmp.Or(m[1:]...), pattern.status)
		}
	}
}

// byLine reads logs of which each line is about one test.
func byLine(patterns ...logLine) func(string) []Test {
	return func(log string) []Test {
		var found logTests
		for line := range strings.SplitSeq(log, "\n") {
			found.note(strings.TrimSpace(line), patterns)
		}
		return found.tests
	}
}

// readSeaborn reads what passed and what failed; nothing else is known of it.
func readSeaborn(log string) []Test {
	var found logTests
	for line := range strings.SplitSeq(log, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
		case strings.HasPrefix(line, "FAILED"):
			found.set(fields[1], Fail)
		case strings.Contains(line, " PASSED "):
			if fields[1] == "PASSED" {
				found.set(fields[0], Pass)
			}
		case strings.HasPrefix(line, "PASSED"):
			found.set(fields[1], Pass)
		}
	}
	return found.tests
}

// sympyFailure heads the traceback of a failure.
var sympyFailure = regexp.MustCompile(`(_*) (.*)\.py:(.*) (_*)`)

// readSympy reads the lines of SymPy's own runner.
func readSympy(log string) []Test {
	var found logTests
	for _, m := range sympyFailure.FindAllStringSubmatch(log, -1) {
		found.set(m[2]+".py:"+m[3], Fail)
	}
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "test_") {
			continue
		}
		for end, status := range map[string]Status{" E": Fail, " F": Fail, " ok": Pass} {
			if strings.HasSuffix(line, end) {
				found.set(strings.Fields(line)[0], status)
			}
		}
	}
	return found.tests
}

// djangoOK are lines that something else stands in: the test has passed all the same.
var djangoOK = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sTesting against Django installed in (?s:.*?) silenced\)\.\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sInternal Server Error: /.*/\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$`),
}

// djangoVersion is a test whose name is what it prints.
const djangoVersion = "--version is equivalent to version"

// djangoLines are those of Django's runner. Of those that begin with a word the harness takes
// the method for the name.
var djangoLines = []logLine{
	{regexp.MustCompile(`(` + djangoVersion + `)`), Pass},
	{regexp.MustCompile(`^(?:Applying sites\.0002_alter_domain_unique\.\.\.(test_no_migrations.*)|(.*)) \.\.\. (?:ok|OK| OK)$`), Pass},
	{regexp.MustCompile(`^(.*?) \.\.\. skipped`), Skip},
	{regexp.MustCompile(`^(.*?) \.\.\. FAIL(?:.* \.\.\. FAIL)?$`), Fail},
	{regexp.MustCompile(`^FAIL:\S*\s+(\S+)`), Fail},
	{regexp.MustCompile(`^(.*?) \.\.\. ERROR(?:.* \.\.\. ERROR)?$`), Fail},
	{regexp.MustCompile(`^ERROR:\S*\s+(\S+)`), Fail},
}

// readDjango reads the lines of Django's runner: NAME ... ok. Where a test has a
// docstring, that is its name.
func readDjango(log string) []Test {
	var found logTests
	before, isNamed := "", false
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimSpace(line)
		if name, _, ok := strings.Cut(line, " ... "); ok {
			before, isNamed = name, true
		}
		found.note(line, djangoLines)
		if isNamed && strings.HasPrefix(line, "ok") {
			found.set(before, Pass) // other output stood in between
		}
	}
	for _, pattern := range djangoOK {
		for _, m := range pattern.FindAllStringSubmatch(log, -1) {
			found.set(m[1], Pass)
		}
	}
	return found.tests
}

var (
	// Verbose lines of unittest: test_a (tests.T) ... ok. A docstring may stand between,
	// on a line of its own.
	logUnittest  = regexp.MustCompile(`^(.*?)\s*\.\.\. (?:.* )?(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b.*$`)
	logSubtest   = regexp.MustCompile(`^(?:FAIL|ERROR): (\S.*)$`)
	logTestName  = regexp.MustCompile(`^\S+ \([\w.]+\)$`)
	unittestWord = map[string]Status{"ok": Pass, "FAIL": Fail, "ERROR": Fail, "skipped": Skip, "expected failure": Pass, "unexpected success": Fail}
)

// readUnittest reads Python's own runner, which the harness does not know.
func readUnittest(log string) []Test {
	var found logTests
	before := ""
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		if m := logUnittest.FindStringSubmatch(line); m != nil {
			if !logTestName.MatchString(m[1]) && logTestName.MatchString(before) {
				found.set(before, unittestWord[m[2]]) // its name stands above its docstring
			}
			found.set(m[1], unittestWord[m[2]])
		} else if m := logSubtest.FindStringSubmatch(line); m != nil {
			found.set(strings.TrimSpace(m[1]), Fail)
		}
		before = line
	}
	return found.tests
}

func (l *logFile) Read(_ *Plan, result *jail.Result) *Report {
	report := &Report{Tests: ReadLog(l.format, string(result.Stdout)+"\n"+string(result.Stderr))}
	if len(report.Tests) == 0 {
		report.Broken = lastOutput(result)
	} else if result.ExitCode != 0 && !slices.ContainsFunc(report.Tests, func(t Test) bool { return t.Status == Fail }) {
		// The code under test can print lines of its own: the log is not that of this run.
		report.Tampering = []string{"the log has no failure and the command failed"}
	}
	return report
}
