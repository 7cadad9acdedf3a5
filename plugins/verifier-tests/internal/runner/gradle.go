package runner

import (
	"cmp"
	"crypto/rand"
	_ "embed" // the code of the seal in Gradle
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

//go:embed seal.gradle
var sealGradle string

// gradle runs Gradle with an init script that seals, in Gradle's own process, the results that the test
// processes report: code under test can make a test process, and so Gradle, exit successfully.
type gradle struct{ Config }

// Plan runs offline, and continues after a failed task.
func (g *gradle) Plan(argv []string, tree *Tree, nonce string) (*Plan, error) {
	dir, key := ".stepfall-"+strings.ToLower(nonce), rand.Text()
	report := dir + "/report"
	plan := &Plan{
		Argv: slices.Clone(argv), Reports: []string{report, report + ".seal", report + ".more"}, key: key, classes: classesOf(tree),
		Changes: []jail.Change{
			{Path: dir + "/seal.gradle", Data: []byte(strings.ReplaceAll(sealGradle, "@PLACE@", dir))},
			{Path: dir + "/key", Data: []byte(key)},
		},
	}
	properties, _ := tree.read("gradle.properties") // it usually does not exist
	own := ""
	if found := gradleMemory.FindSubmatch(properties); found != nil {
		own = string(found[1])
	}
	options := []string{"--no-daemon", "--continue", "--init-script=" + dir + "/seal.gradle", "-Dorg.gradle.jvmargs=" + buildArguments(own)}
	if user, err := os.UserHomeDir(); err == nil && !g.Foreign {
		// Gradle's own files go into the view of the tree, and are discarded with it.
		options = append(options, "--offline", "--gradle-user-home="+dir+"/home", "-Dmaven.repo.local="+filepath.Join(user, ".m2", "repository"))
		if program := wrapperPath(tree, cmp.Or(os.Getenv("GRADLE_USER_HOME"), filepath.Join(user, ".gradle"))); program != "" && filepath.Base(argv[0]) == "gradlew" {
			plan.Argv[0] = program
		}
	}
	plan.Argv = slices.Insert(plan.Argv, 1, options...)
	return plan, nil
}

func (*gradle) Read(plan *Plan, result *jail.Result) *Report {
	report := (&sealedRun{name: "gradle", read: readSealed}).Read(plan, result)
	report.Files = plan.sources(report.Tests)
	report.Unfit = notFetched.FindString(report.Broken)
	return report
}

var (
	gradleMemory  = regexp.MustCompile(`(?m)^\s*org\.gradle\.jvmargs\s*[=:](.*)$`)
	gradleVersion = regexp.MustCompile(`(?m)^\s*distributionUrl\s*[=:].*/([\w.-]+)\.zip\s*$`)
)

// wrapperPath returns the Gradle that the tree's wrapper has downloaded, or "".
func wrapperPath(tree *Tree, home string) string {
	properties, err := tree.read("gradle/wrapper/gradle-wrapper.properties")
	if err != nil {
		return ""
	}
	version := gradleVersion.FindSubmatch(properties)
	if version == nil {
		return ""
	}
	found, _ := filepath.Glob(filepath.Join(home, "wrapper", "dists", string(version[1]), "*", "*", "bin", "gradle"))
	return cmp.Or(append(found, "")...)
}
