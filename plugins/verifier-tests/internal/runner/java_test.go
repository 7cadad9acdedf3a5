package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func javaTreeOf(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	tree := &Tree{Dir: t.TempDir()}
	for name, text := range files {
		file := filepath.Join(tree.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tree.Files = append(tree.Files, name)
	}
	slices.Sort(tree.Files)
	return tree
}

func TestJavaBuildFiles(t *testing.T) {
	tree := javaTreeOf(t, map[string]string{
		"pom.xml":               "<project><testSourceDirectory>${project.basedir}/check</testSourceDirectory><suiteXmlFile>conf/suite.xml</suiteXmlFile><exclude>src/Calc.java</exclude><testResource><directory>data</directory></testResource></project>",
		"conf/suite.xml":        "",
		"src/Calc.java":         "",
		"core/pom.xml":          "",
		"other/build.gradle":    "apply from: \"$rootDir/more\"\n",
		"other/settings.gradle": "includeBuild('../logic')\n",
		"other/more":            "",
	})
	files, patterns, built := Follow([]string{"mvn", "test"}, tree)
	if want := []string{"conf/suite.xml", "other/more"}; !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	for _, want := range []string{"check/**", "data/**", "logic/**"} {
		if !slices.Contains(patterns, want) {
			t.Errorf("%s is not among %q", want, patterns)
		}
	}
	slices.Sort(built)
	if want := []string{"core/target/**", "other/build/**", "target/**"}; !slices.Equal(slices.Compact(built), want) {
		t.Errorf("built %q, want %q", built, want)
	}
}

// The JVM options of a user or tree apply, but attaching to the build's JVM stays disabled.
func TestArgumentsOfBuilds(t *testing.T) {
	tree := javaTreeOf(t, map[string]string{"gradle.properties": "org.gradle.jvmargs = -XX:TieredStopAtLevel=4 -Xmx1g\n"})
	const want = "-XX:TieredStopAtLevel=1 -XX:TieredStopAtLevel=4 -Xmx1g -XX:+DisableAttachMechanism"
	maven, err := newMaven(Config{Env: []string{"MAVEN_OPTS=-XX:TieredStopAtLevel=4 -Xmx1g"}, MemoryMiB: 1000}).Plan([]string{"mvn", "test"}, tree, "n")
	if err != nil || !slices.Contains(maven.Last, "MAVEN_OPTS="+want) || !slices.Contains(maven.Env, "JAVA_TOOL_OPTIONS=-Xmx700m") {
		t.Errorf("Maven: %v %q %q", err, maven.Last, maven.Env)
	}
	gradle, err := (&gradle{}).Plan([]string{"gradle", "test"}, tree, "n")
	if err != nil || !slices.Contains(gradle.Argv, "-Dorg.gradle.jvmargs="+want) {
		t.Errorf("Gradle: %v %q", err, gradle.Argv)
	}
}
