package swe

import (
	"os"
	"path/filepath"
)

// testCommand guesses the test command of the tree at dir by its files, or returns nil.
func testCommand(dir string) []string {
	for _, usual := range []struct {
		file    string
		command []string
	}{
		{"go.mod", []string{"go", "test", "./..."}},
		{"Cargo.toml", []string{"cargo", "test"}},
		{"pom.xml", []string{"mvn", "--offline", "--quiet", "test"}},
		{"build.gradle", []string{"gradle", "--offline", "--quiet", "test"}},
		{"build.gradle.kts", []string{"gradle", "--offline", "--quiet", "test"}},
		{"package.json", []string{"npm", "test", "--silent"}},
		{"pytest.ini", []string{"python3", "-m", "pytest", "-q"}},
		{"conftest.py", []string{"python3", "-m", "pytest", "-q"}},
		{"pyproject.toml", []string{"python3", "-m", "pytest", "-q"}},
		{"setup.py", []string{"python3", "-m", "unittest"}},
		{"Makefile", []string{"make", "test"}},
	} {
		if _, err := os.Stat(filepath.Join(dir, usual.file)); err == nil {
			return usual.command
		}
	}
	return nil
}
