package runner

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// maven runs Maven, which runs the tests in a separate process and writes a report per class. The reports and
// the exit code must agree.
type maven struct {
	junit
	config Config
}

func newMaven(config Config) *maven {
	reports := []string{"**/target/surefire-reports/TEST-*.xml", "**/target/failsafe-reports/TEST-*.xml"}
	if config.Report != "" {
		reports = []string{config.Report}
	}
	return &maven{junit: junit{reports: reports}, config: config}
}

// Plan runs offline, and continues after a failed module.
func (m *maven) Plan(argv []string, tree *Tree, nonce string) (*Plan, error) {
	plan, err := m.junit.Plan(argv, tree, nonce)
	if err != nil {
		return nil, err
	}
	own := ""
	for _, variable := range m.config.Env {
		if value, found := strings.CutPrefix(variable, "MAVEN_OPTS="); found {
			own = value
		}
	}
	plan.Last = []string{"MAVEN_OPTS=" + buildArguments(own)}
	if m.config.Foreign {
		return plan, nil
	}
	if limit := m.config.MemoryMiB; limit > 0 { // by itself, a JVM takes a part of the machine's memory, whatever the limit is
		plan.Env = append(plan.Env, fmt.Sprintf("JAVA_TOOL_OPTIONS=-Xmx%dm", limit*7/10))
	}
	options := append(plan.emptySettings(".stepfall-"+strings.ToLower(nonce)), "--offline", "--batch-mode",
		// Without the mirrors of the user's settings, the origin of an artifact must not matter.
		"-Dmaven.legacyLocalRepo=true", "-Daether.enhancedLocalRepository.trackingFilename=stepfall.none")
	if !hasOption(argv, "--fail-", "-ff", "-fae", "-fn") {
		options = append(options, "--fail-at-end")
	}
	const local = "-Dmaven.repo.local="
	if home, err := os.UserHomeDir(); err == nil && !hasOption(argv, local) {
		options = append(options, local+filepath.Join(home, ".m2", "repository"))
	}
	plan.Argv = slices.Insert(plan.Argv, 1, options...)
	return plan, nil
}

// emptySettings adds empty settings files to the plan, and returns the options that use them instead of those
// of the machine and the user, which can contain passwords and are not readable in the jail.
func (p *Plan) emptySettings(dir string) (options []string) {
	for kind, letter := range map[string]string{"settings": "s", "toolchains": "t"} {
		file := dir + "/" + kind + ".xml"
		p.Changes = append(p.Changes, jail.Change{Path: file, Data: []byte("<" + kind + "/>\n")})
		for long, short := range map[string]string{"--" + kind: "-" + letter, "--global-" + kind: "-g" + letter} {
			if !hasOption(p.Argv, long, short) {
				options = append(options, long+"="+file)
			}
		}
	}
	return options
}

// hasOption reports whether an argument begins with prefix or is one of the words.
func hasOption(argv []string, prefix string, words ...string) bool {
	return slices.ContainsFunc(argv, func(a string) bool { return strings.HasPrefix(a, prefix) || slices.Contains(words, a) })
}

// buildArguments returns the arguments of the JVM that runs the build, with the user's own; the last one
// counts. Tests run in another JVM and must not attach an agent to this one. Compiling quickly rather than
// well saves more time than it costs, even in a build of 100,000 lines.
func buildArguments(own string) string {
	return strings.TrimSpace("-XX:TieredStopAtLevel=1 "+strings.TrimSpace(own)) + " -XX:+DisableAttachMechanism"
}

func isJVM(file string) bool {
	return slices.Contains([]string{".java", ".kt", ".groovy", ".scala"}, path.Ext(file))
}

// classesOf returns the JVM sources of the tree by base name without extension.
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

// sources returns the files that define the classes of tests.
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
