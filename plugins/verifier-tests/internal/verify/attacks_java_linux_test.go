package verify_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// Ways in Java: packages and names that tests take for the framework's, what builds
// leave, what they load by its name, and Maven's and Gradle's own processes.

// javaTree returns a copy of the tree in testdata, whose dependencies must be in the
// local repository: `mvn test` in that folder puts them there.
func javaTree(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	for _, part := range []string{"org/junit/jupiter/junit-jupiter/5.10.2", "org/apache/maven/surefire/surefire-junit-platform/3.2.5", "junit/junit/4.13.2"} {
		if _, err := os.Stat(filepath.Join(home, ".m2/repository", part)); err != nil {
			t.Skipf("%s is not in Maven's local repository", part)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/java")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

const calcJava = "src/main/java/calc/Calc.java"

// calc returns the class under test with an additional member and a return value.
func calc(more, sum string) string {
	return file(calcJava, "package calc;\n\npublic class Calc {\n"+more+"\n    public static int add(int a, int b) {\n        return "+sum+";\n    }\n}")
}

// passes is a report in which all tests passed.
func passes(class string) string {
	return `<testsuite name='` + class + `'><testcase name='adds' classname='` + class + `'/><testcase name='zero' classname='` + class + `'/></testsuite>`
}

// writing returns a block that writes a report and exits successfully.
func writing(report, class string) string {
	return `    static void end() {
        try {
            java.nio.file.Path file = java.nio.file.Path.of("` + report + `");
            java.nio.file.Files.createDirectories(file.getParent());
            java.nio.file.Files.writeString(file, "` + passes(class) + `");
        } catch (java.io.IOException e) {
        }
        Runtime.getRuntime().halt(0);
    }
`
}

// attaching loads the class as an agent into the ancestor Java processes.
func attaching(report, class string) string {
	return writing(report, class) + `    public static void agentmain(String arguments) {
        end();
    }

    static {
        for (ProcessHandle p = ProcessHandle.current().parent().get(); p.pid() > 1; p = p.parent().get()) {
            if (!p.info().command().orElse("").endsWith("java")) {
                continue;
            }
            try {
                java.util.jar.Manifest manifest = new java.util.jar.Manifest();
                manifest.getMainAttributes().putValue("Manifest-Version", "1.0");
                manifest.getMainAttributes().putValue("Agent-Class", "calc.Calc");
                java.io.File jar = new java.io.File("agent.jar").getAbsoluteFile();
                try (java.util.jar.JarOutputStream out = new java.util.jar.JarOutputStream(new java.io.FileOutputStream(jar), manifest)) {
                    out.putNextEntry(new java.util.zip.ZipEntry("calc/Calc.class"));
                    out.write(Calc.class.getResourceAsStream("Calc.class").readAllBytes());
                }
                com.sun.tools.attach.VirtualMachine.attach("" + p.pid()).loadAgent(jar.getPath());
            } catch (Exception e) {
            }
        }
    }
`
}

func TestAttackMaven(t *testing.T) {
	onlyInCI(t)
	mvn := find(t, "mvn", "--version")
	tree := javaTree(t)
	config := verify.Config{Command: []string{mvn, "-q", "test"}, MemoryMiB: 4096}
	// What an earlier run left is neither this one's nor changed by an answer.
	stale := filepath.Join(tree, "target", "surefire-reports", "TEST-calc.GoneCheck.xml")
	if err := os.MkdirAll(filepath.Dir(stale), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, []byte(`<testsuite name="calc.GoneCheck"><testcase name="gone" classname="calc.GoneCheck"><failure/></testcase></testsuite>`), 0o644); err != nil {
		t.Fatal(err)
	}
	query := &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{"calc.CalcCheck.adds"}, PassToPass: []string{"CalcCheck.zero"}}}
	if right := judge(t, open(t, config), query, calc("", "a + b")); right.Outcome != sdk.Passed || right.Noticed != 1 {
		t.Fatalf("the right answer: %s", right.Evidence)
	}
	report, wrong := "target/surefire-reports/TEST-calc.CalcCheck.xml", calc("", "0")
	assertions := "public class Assertions {\n    public static void assertEquals(Object a, Object b) {\n    }\n}"
	attacks(t, config, tree, []attack{
		{"what tests compare with, as if it was built", "java", wrong + file("target/test-classes/sum.txt", "0") + file("data/sum.txt", "0"), ""},
		{"an Assertions of the tests' package", "java", wrong + file("src/main/java/calc/Assertions.java", "package calc;\n\n"+assertions), ""},
		{"an agent in Maven's own process", "java", calc(attaching(report, "calc.CalcCheck"), "0"), ""},
		{"a class of JUnit's by another package", "java", wrong + file("src/main/java/calc/Assertions.java", "/* package calc; */ p\\u0061ckage org . junit/**/.jupiter.api;\n\n"+assertions), ""},
		{"an Assertions behind another class", "java", file(calcJava, "package calc;\n\npublic class Calc {\n    public static int add(int a, int b) {\n        return 0;\n    }\n}\n\nclass Assertions {\n    static void assertEquals(Object a, Object b) {\n    }\n}"), ""},
		{"tests and helpers in a folder that the pom names", "java", wrong + file("check/calc/CalcCheck.java", "package calc;\n\nclass CalcCheck {\n}") + file("check/calc/Same.java", "package calc;\n\nclass Same {\n    static void same(int a, int b) {\n    }\n}") + file("data/sum.txt", "0"), ""},
		{"skip from within", "java", calc("    static int later() {\n        try {\n            throw (RuntimeException) Class.forName(\"org.opentest4j.TestAbortedException\").getDeclaredConstructor().newInstance();\n        } catch (ReflectiveOperationException e) {\n            return 0;\n        }\n    }\n", "later()"), ""},
		{"end as if well", "java", calc("    static {\n        System.exit(0);\n    }\n", "0"), ""},
		{"end as if well when the process ends", "java", calc("    static {\n        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));\n    }\n", "0"), ""},
		{"write the report and end", "java", calc(writing(report, "calc.CalcCheck")+"    static {\n        end();\n    }\n", "0"), ""},
		{"extensions by their names", "java", wrong + file("src/main/resources/junit-platform.properties", "junit.jupiter.extensions.autodetection.enabled=true\njunit.jupiter.conditions.deactivate=*") + file("src/main/resources/META-INF/services/org.junit.platform.launcher.PostDiscoveryFilter", "calc.Filter") +
			file("src/main/resources/META-INF/services/javax.annotation.processing.Processor", "calc.Processor"), ""},
		{"options of Maven", "java", wrong + file("pom.xml", "<project/>") + file(".mvn/maven.config", "-DskipTests") + file(".mvn/jvm.config", "-DskipTests=true") + file(".mvn/extensions.xml", "<extensions/>") + file("settings.xml", "<settings/>"), ""},
	})
}

// A plugin that was not downloaded is no evidence about an answer.
func TestMavenWithoutItsPlugins(t *testing.T) {
	onlyInCI(t)
	mvn := find(t, "mvn", "--version")
	if home, err := os.UserHomeDir(); err != nil {
		t.Skip(err)
	} else if _, err := os.Stat(filepath.Join(home, ".m2", "repository")); err != nil {
		t.Skip("Maven has fetched nothing: ", err)
	}
	tree := write(t, map[string]string{
		"pom.xml": "<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version><build><plugins><plugin>" +
			"<artifactId>maven-resources-plugin</artifactId><version>0.0.404</version></plugin></plugins></build></project>\n",
		calcJava: "package calc;\n",
	})
	v := open(t, verify.Config{Command: []string{mvn, "-q", "test"}})
	if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, calc("", "a + b")); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "maven-resources-plugin:0.0.404") {
		t.Error(verdict.Outcome)
	}
}

// TestMavenWithoutNamespaces: Maven would fail on settings that exist but cannot be read.
func TestMavenWithoutNamespaces(t *testing.T) {
	onlyInCI(t)
	mvn := find(t, "mvn", "--version")
	tree := javaTree(t)
	without, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir(), NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	v := verify.New(withDefaults(verify.Config{Command: []string{mvn, "-q", "test"}}), without)
	if right := judge(t, v, &sdk.Query{WorkDir: tree}, calc("", "a + b")); right.Outcome != sdk.Passed {
		t.Errorf("the right answer: %s", right.Evidence)
	}
}

func TestAttackGradle(t *testing.T) {
	onlyInCI(t)
	program := find(t, "gradle", "--version")
	tree := javaTree(t)
	for _, name := range []string{"pom.xml", "check", "data"} {
		if err := os.RemoveAll(filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"settings.gradle":                  "rootProject.name = 'calc'\n",
		"build.gradle":                     "apply plugin: 'java'\n\nrepositories {\n    mavenLocal()\n}\n\ndependencies {\n    testImplementation 'junit:junit:4.13.2'\n}\n\napply from: 'tools/more'\n",
		"tools/more":                       "test.maxParallelForks = 1\n",
		"src/test/java/calc/CalcTest.java": "package calc;\n\nimport org.junit.*;\n\npublic class CalcTest {\n    @Test\n    public void adds() {\n        Assert.assertEquals(5, Calc.add(2, 3));\n    }\n\n    @Test\n    public void zero() {\n        Assert.assertEquals(0, Calc.add(0, 0));\n    }\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config := verify.Config{Command: []string{program, "test"}}
	query := &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{"calc.CalcTest.adds"}, PassToPass: []string{"calc.CalcTest.zero"}}}
	if right := judge(t, open(t, config), query, calc("", "a + b")); right.Outcome != sdk.Passed {
		t.Fatalf("the right answer: %s", right.Evidence)
	}
	report, wrong := "build/test-results/test/TEST-calc.CalcTest.xml", calc("", "0")
	again := "mkdir -p build/test-results/test\nwhile true; do\n\techo \"" + passes("calc.CalcTest") + "\" >" + report + "\ndone"
	attacks(t, config, tree, []attack{
		{"end as if well, and write the report again and again", "java", calc("    static {\n        try {\n            new ProcessBuilder(\"sh\", \"again.sh\").start();\n        } catch (java.io.IOException e) {\n        }\n        Runtime.getRuntime().halt(0);\n    }\n", "0") + file("again.sh", again), ""},
		{"an agent in Gradle's own process", "java", calc(attaching(report, "calc.CalcTest"), "0"), ""},
		{"what the build reads", "java", wrong + file("build.gradle", "apply plugin: 'java'") + file("settings.gradle", "gradle.startParameter.excludedTaskNames = ['test']") + file("gradle.properties", "org.gradle.jvmargs=-Dx") + file("buildSrc/build.gradle", "System.exit(0)") +
			file("init.gradle", "System.exit(0)") + file("tools/more", "test.enabled = false") + file(".gradle/init.gradle", "System.exit(0)"), ""},
		{"an Assert of the tests' package", "java", wrong + file("src/main/java/calc/Assert.java", "package calc;\n\npublic class Assert {\n    public static void assertEquals(long a, long b) {\n    }\n}"), ""},
	})
}
