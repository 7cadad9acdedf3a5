package runner

import (
	"path"
	"testing"
)

// What tells a tool how to run its tests decides, whichever tool it is.
func TestToolsAreToldByTheCleanTree(t *testing.T) {
	for tool, files := range map[string][]string{
		"mvn": {"pom.xml", "org.junit.platform.launcher.TestExecutionListener", "junit-platform.properties"}, "gradle": {"build.gradle.kts", "**/buildSrc/**", "org.junit.jupiter.api.extension.Extension"},
		"rspec": {".rspec-local", ".bundle/**", "gems.rb"}, "composer": {"composer.json", "**/vendor/**"}, "phpunit": {"phpunit.xml"}, "dotnet": {"Directory.Build.targets", "a.csproj"},
		"ctest": {"CMakeLists.txt", "CTestCustom.cmake"}, "mix": {"mix.exs", "test_helper.exs"}, "prove": {".proverc", "a.t"}, "bazel": {".bazelrc"}, "sbt": {"build.sbt"}, "ant": {"build.xml"}, "dart": {"dart_test.yaml"},
	} {
		for _, file := range files {
			kept := false
			for _, pattern := range guardsOf(tool) {
				ok, err := path.Match(pattern, file)
				kept = kept || pattern == file || ok && err == nil
			}
			if !kept {
				t.Errorf("%s: %s", tool, file)
			}
		}
	}
}
