package runner

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// logFile runs any command whose output names its tests in a known format, and judges by the log like the
// harness of SWE-bench. If the command failed, the log must have a failure.
type logFile struct {
	format string
}

func (*logFile) Plan(argv []string, _ *Tree, _ string) (*Plan, error) {
	return &Plan{Argv: slices.Clone(argv)}, nil
}

// logReaders parse the tests of a log like the harness of SWE-bench. The last line about a test counts; a test
// that no line names was not run.
var logReaders = map[string]func(log string) []Test{
	"pytest": readSummary(pytestName), "pytest-options": readSummary(optionName), "matplotlib": readSummary(buttonName), "pytest-v2": eachLine(readPytestV2),
	"seaborn": eachLine(readSeaborn), "sympy": readSympy, "django": readDjango, "unittest": readUnittest,
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

// ReadLog parses the tests of a log in one of the formats of [logReaders].
func ReadLog(format, log string) []Test {
	read := logReaders[format]
	if read == nil {
		return nil
	}
	return read(lineEnds.Replace(log))
}

// lineEnds converts all line ends to \n, as Python does for the harness.
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

// logWords are pytest's words for the results of tests. XPASS is missing, as in the harness, which takes such a
// test as not run.
var logWords = map[string]Status{"PASSED": Pass, "XFAIL": Pass, "FAILED": Fail, "ERROR": Fail, "SKIPPED": Skip}

var (
	// firstWord and lastWord match lines that begin or end with one of the logWords.
	firstWord = regexp.MustCompile(`^(?:PASSED|XFAIL|FAILED|ERROR|SKIPPED)`)
	lastWord  = regexp.MustCompile(`(?:PASSED|XFAIL|FAILED|ERROR|SKIPPED)$`)
	// counted matches the number in SKIPPED [3] file:line, which names no test.
	counted = regexp.MustCompile(`^\[\d+\]$`)
)

// eachLine returns a reader of logs that parses them line by line.
func eachLine(read func(found *logTests, line string)) func(log string) []Test {
	return func(log string) []Test {
		var found logTests
		for line := range strings.SplitSeq(log, "\n") {
			read(&found, line)
		}
		return found.tests
	}
}

// readSummary returns a reader of the short summary of pytest -rA, a word and a name per line. Names end at
// their first space, as in the data sets.
func readSummary(name func(line string, fields []string) string) func(string) []Test {
	return eachLine(func(found *logTests, line string) {
		fields := strings.Fields(line)
		if firstWord.MatchString(line) && len(fields) > 1 && (fields[0] != "SKIPPED" || !counted.MatchString(fields[1])) {
			found.set(name(line, fields), logWords[fields[0]])
		}
	})
}

func pytestName(_ string, fields []string) string { return fields[1] }

var bracketed = regexp.MustCompile(`^(.*?)\[(.*)\]`)

// optionName shortens a path in brackets to its last element, since the rest differs between machines.
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

// readPytestV2 parses a line of summaries whose names have spaces, and of older versions, in which the word
// comes last.
func readPytestV2(found *logTests, line string) {
	line = control.ReplaceAllString(colours.ReplaceAllString(line, ""), "")
	if strings.HasPrefix(line, "FAILED") {
		line, _, _ = strings.Cut(line, " - ")
	}
	fields := strings.Fields(line)
	last := len(fields) - 1
	switch {
	case last < 1:
	case firstWord.MatchString(line):
		if fields[0] != "SKIPPED" || !counted.MatchString(fields[1]) {
			found.set(strings.Join(fields[1:], " "), logWords[fields[0]])
		}
	case lastWord.MatchString(line):
		found.set(strings.Join(fields[:last], " "), logWords[fields[last]])
	}
}

// logLine matches a line with the result of a test.
type logLine struct {
	line   *regexp.Regexp
	status Status
}

// setMatches sets the tests that a line names.
func (l *logTests) setMatches(line string, patterns []logLine) {
	for _, pattern := range patterns {
		if m := pattern.line.FindStringSubmatch(line); m != nil {
			l.set(cmp.Or(m[1:]...), pattern.status)
		}
	}
}

// byLine returns a reader of logs with one test per line.
func byLine(patterns ...logLine) func(string) []Test {
	return eachLine(func(found *logTests, line string) { found.setMatches(strings.TrimSpace(line), patterns) })
}

// readSeaborn parses passed and failed tests only.
func readSeaborn(found *logTests, line string) {
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

var sympyFailure = regexp.MustCompile(`(_*) (.*)\.py:(.*) (_*)`)

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

// djangoOK matches tests that passed with other output between their name and ok.
var djangoOK = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sTesting against Django installed in (?s:.*?) silenced\)\.\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sInternal Server Error: /.*/\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$`),
}

// djangoVersion is a test whose name is its output.
const djangoVersion = "--version is equivalent to version"

// djangoLines are the lines of Django's runner. In FAIL: and ERROR: lines the name is the method's.
var djangoLines = []logLine{
	{regexp.MustCompile(`(` + djangoVersion + `)`), Pass},
	{regexp.MustCompile(`^(?:Applying sites\.0002_alter_domain_unique\.\.\.(test_no_migrations.*)|(.*)) \.\.\. (?:ok|OK| OK)$`), Pass},
	{regexp.MustCompile(`^(.*?) \.\.\. skipped`), Skip},
	{regexp.MustCompile(`^(.*?) \.\.\. FAIL(?:.* \.\.\. FAIL)?$`), Fail},
	{regexp.MustCompile(`^FAIL:\S*\s+(\S+)`), Fail},
	{regexp.MustCompile(`^(.*?) \.\.\. ERROR(?:.* \.\.\. ERROR)?$`), Fail},
	{regexp.MustCompile(`^ERROR:\S*\s+(\S+)`), Fail},
}

// readDjango parses the output of Django's runner: NAME ... ok, where NAME is the docstring if there is one.
func readDjango(log string) []Test {
	var found logTests
	before, isNamed := "", false
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimSpace(line)
		if name, _, ok := strings.Cut(line, " ... "); ok {
			before, isNamed = name, true
		}
		found.setMatches(line, djangoLines)
		if isNamed && strings.HasPrefix(line, "ok") {
			found.set(before, Pass) // other output came in between
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
	// Verbose lines of unittest: test_a (tests.T) ... ok. A docstring can come in between, on its own line.
	logUnittest  = regexp.MustCompile(`^(.*?)\s*\.\.\. (?:.* )?(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b.*$`)
	logSubtest   = regexp.MustCompile(`^(?:FAIL|ERROR): (\S.*)$`)
	logTestName  = regexp.MustCompile(`^\S+ \([\w.]+\)$`)
	unittestWord = map[string]Status{"ok": Pass, "FAIL": Fail, "ERROR": Fail, "skipped": Skip, "expected failure": Pass, "unexpected success": Fail}
)

// readUnittest parses the output of Python's own runner, a format that the harness lacks.
func readUnittest(log string) []Test {
	var found logTests
	before := ""
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		if m := logUnittest.FindStringSubmatch(line); m != nil {
			if !logTestName.MatchString(m[1]) && logTestName.MatchString(before) {
				found.set(before, unittestWord[m[2]]) // the name is above the docstring
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
	report := &Report{Exact: true, Tests: ReadLog(l.format, string(result.Stdout)+"\n"+string(result.Stderr))}
	if len(report.Tests) == 0 {
		report.Broken = lastOutput(result)
	} else if result.ExitCode != 0 && !slices.ContainsFunc(report.Tests, func(t Test) bool { return t.Status == Fail }) {
		// The code under test can print lines of its own, so the log is not of this run.
		report.Tampering = []string{"the log has no failure and the command failed"}
	}
	return report
}
