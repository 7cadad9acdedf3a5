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

func TestJavaSuspects(t *testing.T) {
	tree := javaTreeOf(t, map[string]string{
		"src/main/java/calc/Calc.java":     "package calc;\n",
		"src/test/java/calc/CalcTest.java": "package calc;\nimport org.junit.jupiter.api.*;\nimport org.hamcrest.Matchers;\nclass CalcTest { void a() throws Exception { Assertions.assertEquals(1, 1); Matchers.is(1); } }\n",
		"src/main/kotlin/calc/More.kt":     "package calc\n",
		"own/src/org/assertj/core/A.java":  "package org.assertj.core;\n",
	})
	for _, c := range []struct {
		name, file, before, after string
		want                      bool
	}{
		{"the framework's package", "src/A.java", "", "package org.junit;\nclass A {}", true},
		{"behind comments and escapes", "src/A.java", "", "/* package calc; */ package // x\n \\u006frg\n. junit.jupiter.api;", true},
		{"a service of a module", "src/main/java/module-info.java", "", "module calc { provides org.junit.platform.launcher.TestExecutionListener with calc.L; }", true},
		{"a name that tests import by a star", "src/main/java/calc/Assertions.java", "", "package calc;\nclass Assertions {}", true},
		{"the same behind a text", "src/main/java/calc/Calc.java", "package calc;\n", "package calc;\nclass Calc { String a = \"/*\"; }\nclass Assertions {}\n/**/", true},
		{"in Kotlin", "src/main/kotlin/calc/More.kt", "package calc\n", "package calc\nfun assertEquals(a: Int, b: Int) {}", true},
		{"a name that tests import by itself", "src/main/java/calc/Matchers.java", "", "package calc;\nclass Matchers {}", false},
		{"in another package", "src/main/java/util/Assertions.java", "", "package util;\nclass Assertions {}", false},
		{"within a class", "src/main/java/calc/Calc.java", "package calc;\n", "package calc;\nclass Calc { static class Exception {} }", false},
		{"in a comment", "src/main/java/calc/Calc.java", "package calc;\n", "package calc;\n// Unlike class Exception, and package org.junit, it is fast.\nclass Calc {}", false},
		{"there before", "src/main/java/calc/Calc.java", "package calc; class Exception {}", "package calc; class Exception { int a; }", false},
		{"the framework's own repository", "own/src/org/assertj/core/B.java", "", "package org.assertj.core;\nclass B {}", false},
	} {
		if got := (anyLanguage{}).Suspect(tree, c.file, []byte(c.before), []byte(c.after)); (got != "") != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestJavaDecides(t *testing.T) {
	for before, want := range map[string]bool{
		"package calc;\nimport static org.junit.Assert.*;\nclass Same {}":          true,
		"package calc;\nimport java.util.List;\nclass Calc {}":                     false,
		"package calc;\n// import org.junit.Assert;\nclass Calc {}":                false,
		"package org.junit.runner;\nimport org.junit.Assert;\nclass OfTheirOwn {}": false,
	} {
		if got := (anyLanguage{}).Decides("a/Same.java", []byte(before), nil); got != want {
			t.Errorf("%s: %v", before, got)
		}
	}
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
	files, guards, built := Operands([]string{"mvn", "test"}, tree)
	if want := []string{"conf/suite.xml", "other/more"}; !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	for _, want := range []string{"check/**", "data/**", "logic/**", "pom.xml"} {
		if !slices.Contains(guards, want) {
			t.Errorf("%s is not among %q", want, guards)
		}
	}
	slices.Sort(built)
	if want := []string{"core/target/**", "other/build/**", "target/**"}; !slices.Equal(slices.Compact(built), want) {
		t.Errorf("built %q, want %q", built, want)
	}
}
