package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// testFiles are the patterns of files that decide about an answer: of base names or, with a slash, of paths.
// DIR/** matches everything below DIR, **/DIR/** everything below any folder of that name. They are for new files,
// and for commands that do not report the files of their tests; those seen by the pre-flight are added.
var testFiles = slices.Concat(pythonTests, strings.Fields(`
	*_test.go
	tests.rs test.rs *_test.rs *_tests.rs test_*.rs **/benches/**
	**/tests/** **/__tests__/** **/testdata/** test/** **/src/test/** **/spec/**.rb
	*Test.java *Tests.java *TestCase.java *IT.java *Test.kt *Tests.kt *Test.groovy *Spec.groovy *Test.scala *Spec.scala
	*Test.cs *Tests.cs *Test.php *_test.rb test_*.rb *_spec.rb *_test.exs *_test.dart *_test.c test_*.c *_test.cc *_test.cpp *_unittest.cc *.t
	**/__snapshots__/** *.snap *.golden **/__fixtures__/**
`), scriptTests())

// pythonTests are the names that Python's test runners look for.
var pythonTests = []string{"test_*.py", "*_test.py", "tests.py"}

// settings are the patterns of files that determine how tests are built and run, and of what was installed or
// compiled into the tree. If an answer needs to change one, its failures prove nothing.
var settings = strings.Fields(`
	go.work go.work.sum conftest.py
	**/__mocks__/** jest.setup.* jest-setup.* vitest.setup.* vitest-setup.* setupTests.* setup-tests.* setup-jest.* test-setup.* test_helper.* spec_helper.*
	pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini setup.cfg pyproject.toml .coveragerc noxfile.py
	sitecustomize.py usercustomize.py entry_points.txt *.pth /unittest.py unittest/** /pytest.py pytest/** _pytest/** pluggy/** iniconfig/**
	Cargo.toml Cargo.lock build.rs **/.cargo/** rust-toolchain rust-toolchain.toml
	pom.xml **/.mvn/** mvnw *.gradle *.gradle.kts gradle.properties gradle/** .gradle/** gradlew **/buildSrc/** build.xml build.sbt .sbtopts project.clj profiles.clj
	junit-platform.properties testng.xml cucumber.properties kotest.properties jqwik.properties **/mockito-extensions/**
	org.junit.* org.testng.* org.spockframework.* org.assertj.* org.mockito.* org.opentest4j.* org.apache.maven.* io.cucumber.* io.kotest.* net.jqwik.*
	javax.annotation.processing.Processor org.codehaus.groovy.* org.apache.groovy.*
	.rspec .rspec-local Rakefile *.rake Gemfile Gemfile.lock gems.rb gems.locked .bundle/** **/minitest/**_plugin.rb
	phpunit.xml phpunit.xml.dist phpunit.dist.xml composer.json composer.lock codeception*.yml .user.ini
	Directory.Build.* Directory.Packages.props Directory.Solution.* *.csproj *.fsproj *.vbproj *.sln *.slnx *.runsettings xunit.runner.json nuget.config NuGet.Config global.json
	CMakeLists.txt *.cmake CMakePresets.json CMakeUserPresets.json meson.build meson.options meson_options.txt build.ninja Makefile makefile GNUmakefile *.mk
	mix.exs mix.lock .iex.exs rebar.config rebar.config.script .proverc BUILD BUILD.bazel WORKSPACE WORKSPACE.bazel MODULE.bazel .bazelrc *.bzl
	Package.swift dart_test.yaml pubspec.yaml build.zig *.cabal cabal.project* stack.yaml dune dune-project .busted justfile Justfile .justfile Taskfile.y*ml
	package.json .npmrc .yarnrc .yarnrc.yml jest.config.* vitest.config.* vitest.workspace.* vite.config.* .mocharc.* ava.config.* karma.conf.*
	jasmine.json .taprc .nycrc* playwright.config.* cypress.config.* babel.config.* .babelrc* .swcrc tsconfig*.json node.config.json
	bunfig.toml .pnp.* .pnpmfile.cjs .yarn/** deno.json deno.jsonc
	**/node_modules/** **/.venv/** **/venv/** **/vendor/** **/site-packages/** **/__pycache__/** *.pyc
`)

// scriptTests returns the names that JavaScript's test runners look for.
func scriptTests() []string {
	var patterns []string
	for _, extension := range []string{"js", "ts", "mjs", "cjs", "mts", "cts", "jsx", "tsx"} {
		for _, name := range []string{"*.test.", "*.spec.", "*-test.", "*_test.", "test-*.", "test.", "**/test/**."} {
			patterns = append(patterns, name+extension)
		}
	}
	return patterns
}

// Guards of pattern lists that do not depend on the tree.
var (
	allTests     = newGuard(testFiles)
	ofPython     = newGuard(pythonTests)
	ofScripts    = newGuard(scriptTests())
	notOfPython  = newGuard(testFiles[len(pythonTests):])
	toolSettings = newGuard(settings)
)

var codeEndings = strings.Fields(".py .go .js .cjs .mjs .ts .tsx .jsx .java .kt .rs .rb .php .c .h .cc .cpp .cs .swift .scala .sh")

func isCode(file string) bool { return slices.Contains(codeEndings, path.Ext(file)) }

// guard matches the files that an answer must not change.
type guard struct {
	names map[string]bool // exact base names
	bases []string        // patterns of base names
	paths []string        // patterns for [jail.Match]
}

// newGuard parses the patterns. Invalid ones match nothing.
func newGuard(patterns []string) *guard {
	g := &guard{names: map[string]bool{}}
	for _, pattern := range patterns {
		switch slash, end := strings.Contains(pattern, "/"), strings.LastIndex(pattern, "/**"); {
		case end >= 0: // also of patterns such as **/test/**.js
			g.paths = append(g.paths, pattern[:end]+"/**/*"+pattern[end+len("/**"):])
		case slash:
			g.paths = append(g.paths, strings.TrimPrefix(pattern, "/"))
		case strings.ContainsAny(pattern, `*?[\`):
			g.bases = append(g.bases, pattern)
		default:
			g.names[pattern] = true
		}
	}
	return g
}

func (g *guard) has(file string) bool {
	base := path.Base(file)
	return g.names[base] ||
		slices.ContainsFunc(g.bases, func(pattern string) bool {
			ok, err := path.Match(pattern, base)
			return ok && err == nil
		}) ||
		slices.ContainsFunc(g.paths, func(pattern string) bool { return jail.Match(pattern, file) })
}
