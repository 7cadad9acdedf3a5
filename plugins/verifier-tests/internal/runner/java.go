package runner

import (
	"bytes"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// maven runs Maven, which starts the tests in a process of its own and writes what
// came of each class: what both the report and the exit code say counts.
type maven struct {
	junit
	config Config
}

// javaBuilds are the programs that build and test what runs on the JVM.
var javaBuilds = []string{"mvn", "mvnw", "gradle", "gradlew"}

// javaGuards are what frameworks of tests and compilers load by its name from among
// the code.
var javaGuards = []string{
	"junit-platform.properties", "testng.xml", "org.junit.*", "org.testng.*", "org.spockframework.*", "org.assertj.*", "org.mockito.*", "org.opentest4j.*",
	"org.apache.maven.*", "io.cucumber.*", "cucumber.properties", "io.kotest.*", "kotest.properties", "jqwik.properties", "net.jqwik.*", "**/mockito-extensions/**",
	"javax.annotation.processing.Processor", "org.codehaus.groovy.*", "org.apache.groovy.*",
}

func newMaven(program string, config Config) *maven {
	reports := []string{"**/target/surefire-reports/TEST-*.xml", "**/target/failsafe-reports/TEST-*.xml"}
	if config.Report != "" {
		reports = []string{config.Report}
	}
	return &maven{junit: junit{reports: reports, guards: guardsOf(program)}, config: config}
}

func (*maven) Name() string { return "Maven" }

// Plan runs offline, and goes on after the first module that fails.
func (m *maven) Plan(argv []string, tree *Tree, nonce string) (*Plan, error) {
	plan, err := m.junit.Plan(argv, tree, nonce)
	if err != nil {
		return nil, err
	}
	// The tests could attach an agent to Maven itself.
	arguments := "-XX:+DisableAttachMechanism"
	for _, variable := range m.config.Env {
		if own, ok := strings.CutPrefix(variable, "MAVEN_OPTS="); ok {
			arguments = own + " " + arguments
		}
	}
	plan.Last = []string{"MAVEN_OPTS=" + arguments}
	if m.config.Foreign {
		return plan, nil
	}
	// Settings of the machine and the user may hold passwords and are not to be read.
	// Without their mirrors it must not matter where an artifact was fetched from.
	options := []string{
		"--offline", "--batch-mode",
		"-Dmaven.legacyLocalRepo=true", "-Daether.enhancedLocalRepository.trackingFilename=stepfall.none",
	}
	dir := ".stepfall-" + strings.ToLower(nonce)
	for kind, letter := range map[string]string{"settings": "s", "toolchains": "t"} {
		file := dir + "/" + kind + ".xml"
		plan.Changes = append(plan.Changes, jail.Change{Path: file, Data: []byte("<" + kind + "/>\n")})
		for long, short := range map[string]string{"--" + kind: "-" + letter, "--global-" + kind: "-g" + letter} {
			if !slices.ContainsFunc(argv, func(a string) bool { return a == short || strings.HasPrefix(a, long) }) {
				options = append(options, long+"="+file)
			}
		}
	}
	if !slices.ContainsFunc(argv, func(a string) bool {
		return strings.HasPrefix(a, "--fail-") || slices.Contains([]string{"-ff", "-fae", "-fn"}, a)
	}) {
		options = append(options, "--fail-at-end")
	}
	const local = "-Dmaven.repo.local="
	if home, err := os.UserHomeDir(); err == nil && !slices.ContainsFunc(argv, func(a string) bool { return strings.HasPrefix(a, local) }) {
		options = append(options, local+filepath.Join(home, ".m2", "repository"))
	}
	plan.Argv = slices.Insert(plan.Argv, 1, options...)
	return plan, nil
}

// isJVM reports whether a file is of a language whose tests run on the JVM.
func isJVM(file string) bool {
	return slices.Contains([]string{".java", ".kt", ".groovy", ".scala"}, path.Ext(file))
}

// classesOf returns the sources of the tree by their names without endings.
func classesOf(tree *Tree) map[string][]string {
	classes := map[string][]string{}
	for _, file := range tree.Files {
		if isJVM(file) {
			name := strings.TrimSuffix(path.Base(file), path.Ext(file))
			classes[name] = append(classes[name], file)
		}
	}
	return classes
}

// sources returns the files that the classes of tests come from.
func (p *Plan) sources(tests []Test) []string {
	found := map[string]bool{}
	for _, test := range tests {
		name, _, _ := strings.Cut(test.Group, "$")
		end := strings.ReplaceAll(name, ".", "/")
		for _, file := range p.classes[path.Base(end)] {
			if strings.HasSuffix("/"+strings.TrimSuffix(file, path.Ext(file)), "/"+end) {
				found[file] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

const judgesOfJava = `(?:org\.(?:junit|testng|hamcrest|assertj|mockito|easymock|opentest4j|spockframework|scalatest)|junit|spock|kotlin\.test|io\.kotest|io\.cucumber|com\.google\.common\.truth|org\.apache\.maven|(?:worker\.)?org\.gradle)\b`

var (
	javaUnicode  = regexp.MustCompile(`\\u+([0-9a-fA-F]{4})`)
	javaPackage  = regexp.MustCompile(`\bpackage\s+([\w.]+)`)
	javaJudge    = regexp.MustCompile(`\bpackage\s+` + judgesOfJava + `|\bprovides\s+` + judgesOfJava)
	javaImport   = regexp.MustCompile(`\bimport\s+(?:static\s+)?` + judgesOfJava)
	javaDeclares = regexp.MustCompile(`\b(?:class|interface|enum|record|object|trait)\s+(Test|ParameterizedTest|RepeatedTest|TestFactory|TestCase|Nested|BeforeEach|BeforeAll|AfterEach|AfterAll|Before|After|RunWith|Rule|` +
		`ExtendWith|ValueSource|CsvSource|MethodSource|Assert|Assertions|Assume|Assumptions|MatcherAssert|Matchers|CoreMatchers|Truth|AssertionError|Throwable|Exception|Error|RuntimeException|` +
		`Object|String|Integer|Long|Double|Boolean|Character|Math|Iterable|Override)\b|\bfun\s+(?:<[^>]*>\s*)?(assert\w*|fail|expect|check|require)\b`)
	javaDots = regexp.MustCompile(`\s*\.\s*`)
)

// javaText returns a source as a compiler reads it, without escapes, comments and the
// content of texts; top has only what is outside of all braces.
func javaText(src []byte) (text, top string) {
	src = javaUnicode.ReplaceAllFunc(src, func(escape []byte) []byte {
		code, err := strconv.ParseUint(string(escape[len(escape)-4:]), 16, 32)
		if err != nil {
			return escape
		}
		return []byte(string(rune(code)))
	})
	var all, outer []byte
	depth := 0
	for at := 0; at < len(src); {
		next := javaToken(src, at)
		token := src[at:next]
		if next > at+1 {
			token = []byte{' '}
		}
		if src[at] == '}' && next == at+1 {
			depth--
		}
		all = append(all, token...)
		if depth <= 0 {
			outer = append(outer, token...)
		}
		if src[at] == '{' && next == at+1 {
			depth++
		}
		at = next
	}
	return javaDots.ReplaceAllString(string(all), "."), javaDots.ReplaceAllString(string(outer), ".")
}

// javaToken returns where a comment or a text that begins at ends; other characters
// stand alone.
func javaToken(src []byte, at int) int {
	until := func(end string, escapes, line bool) int {
		for i := at + len(end); i < len(src); i++ {
			switch {
			case bytes.HasPrefix(src[i:], []byte(end)):
				return i + len(end)
			case escapes && src[i] == '\\':
				i++
			case line && src[i] == '\n':
				return i
			}
		}
		return len(src)
	}
	rest := src[at:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		return until("\n", false, true)
	case bytes.HasPrefix(rest, []byte("/*")):
		if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
			return at + end + 4
		}
		return len(src)
	case bytes.HasPrefix(rest, []byte(`"""`)):
		return until(`"""`, true, false)
	case rest[0] == '"':
		return until(`"`, true, true)
	case rest[0] == '\'':
		return until(`'`, true, true)
	}
	return at + 1
}

func packageOf(text string) string {
	match := javaPackage.FindStringSubmatch(text)
	if match == nil {
		return ""
	}
	return match[1]
}

// javaDecides reports whether a source is a helper of tests: it imports what they judge
// with.
func javaDecides(file string, before []byte) bool {
	if !isJVM(file) {
		return false
	}
	text, _ := javaText(before)
	return javaImport.MatchString(text) && !javaJudge.MatchString(text)
}

// javaSuspect returns why a source would be taken for a part of what judges, or "".
func javaSuspect(tree *Tree, file string, before, after []byte) string {
	if !isJVM(file) {
		return ""
	}
	was, wasTop := javaText(before)
	is, top := javaText(after)
	if found := javaJudge.FindString(is); found != "" && !strings.Contains(was, found) && !ownsPackage(tree, packageOf(is)) {
		return "puts code in the place of what tests judge with (" + found + ")"
	}
	for _, match := range javaDeclares.FindAllStringSubmatch(top, -1) {
		if name := match[1] + match[2]; !strings.Contains(wasTop, match[0]) && shadowed(tree, packageOf(is), name) {
			return "has a " + name + " of its own, which tests of its package would take for the one that they know"
		}
	}
	return ""
}

// ownsPackage reports whether the tree has sources of the package: it is the framework's.
func ownsPackage(tree *Tree, name string) bool {
	return slices.ContainsFunc(tree.Files, func(file string) bool {
		return isJVM(file) && strings.HasSuffix("/"+path.Dir(file), "/"+strings.ReplaceAll(name, ".", "/"))
	})
}

// shadowed reports whether a source of the package uses the name without importing it.
func shadowed(tree *Tree, name, used string) bool {
	word := regexp.MustCompile(`\b` + used + `\b`)
	imported := regexp.MustCompile(`\bimport\s+(?:static\s+)?[\w.\s]+\.\s*` + used + `\b`)
	for _, file := range tree.Files {
		if !isJVM(file) || !strings.HasSuffix("/"+path.Dir(file), "/"+strings.ReplaceAll(name, ".", "/")) {
			continue
		}
		src, err := tree.read(file)
		if err != nil {
			continue
		}
		if text, _ := javaText(src); javaImport.MatchString(text) && word.MatchString(text) && !imported.MatchString(text) {
			return true
		}
	}
	return false
}
