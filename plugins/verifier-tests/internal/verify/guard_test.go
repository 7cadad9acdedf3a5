package verify

import "testing"

func TestGuard(t *testing.T) {
	g := newGuard(append([]string{"ci/*.sh", "secret", "v?.txt", "a*b*c", "golden/**", "**/fixtures/**", "/root.py"}, testFiles...))
	for file, want := range map[string]bool{
		"a_test.go": true, "x/y/a_test.go": true, "a_test.go.txt": false, "test_a.py": true, "x/test_.py": true, "tests.py": true, "lib/test/a.js": true, "lib/test/b/a.js": true, "x_test.ts": true, "test-x.mjs": true, "test.js": true, "latest.js": false, "xtest_a.py": false,
		"tests/a.txt": true, "x/tests/a/b.txt": true, "mytests/a": false, "test/a.js": true, "django/test/client.py": false,
		"pkg/testdata/golden.json": true, "ci/a.sh": true, "x/ci/a.sh": false, "ci/x/a.sh": false, "secret": true, "x/secret": true, "secret/x": false, "root.py": true, "x/root.py": false,
		"v1.txt": true, "v12.txt": false, "aXbXc": true, "golden/a/b": true, "golden.go": false, "x/golden.txt": false, "x/a.golden": true, "src/test/java/a/B.java": true, "a/BTest.java": true, "Testing.java": false, "spec/a_spec.rb": true, "spec/x/b.rb": true, "lib/a_spec.rb": true, "__fixtures__/a": true, "x/fixtures/a": true, "fixtures/a": true,
	} {
		if got := g.has(file); got != want {
			t.Errorf("%s: %t", file, got)
		}
	}
}

// Files that configure how any tool runs its tests are guarded.
func TestSettings(t *testing.T) {
	g := newGuard(settings)
	for file, want := range map[string]bool{
		"pom.xml": true, "a/conftest.py": true, "x/META-INF/services/org.junit.platform.launcher.TestExecutionListener": true, "build.gradle.kts": true, "a/buildSrc/x": true, ".rspec-local": true, ".bundle/config": true, "composer.json": true, "a/vendor/b.php": true,
		"src/a.csproj": true, "CMakeLists.txt": true, "mix.exs": true, ".proverc": true, ".bazelrc": true, "build.sbt": true, "x/node_modules/.bin/x": true, ".venv/bin/pytest": true, "pytest.py": true, "lib/pytest.py": false, "json.py": false, "config/a.py": false, "checkout/a.js": false,
	} {
		if got := g.has(file); got != want {
			t.Errorf("%s: %t", file, got)
		}
	}
}
