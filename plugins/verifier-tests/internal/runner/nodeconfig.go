package runner

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// nodeSetting is a setting of jest, vitest, mocha, ava, karma or nyc that
	// names files to be loaded, in JSON, YAML or a script. What transforms code is none: it
	// is often the very code under test.
	nodeSetting = regexp.MustCompile(`(?m)\b(setupFiles|setupFilesAfterEnv|globalSetup|globalTeardown|testEnvironment|environment|reporters?|runner|testRunner|resolver|snapshotSerializers|require|import|file|loader|helpers)["']?\s*:\s*(\[[^\]]*\]|\{[^}]*\}|["'][^"']*["']|[^\s,"'\[{][^\s,]*|(?:\n\s*-[^\n]*)+)`)
	nodePath    = regexp.MustCompile(`[\w@.<>/-]+`)
	nodeEndings = []string{"", ".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".jsx", ".tsx", ".json", "/index.js", "/index.ts"}
)

// nodeConfigurations adds the files that the configurations of node's tools have loaded
// before tests, or round them.
func (o *operands) nodeConfigurations() {
	configurations := guardsOf("node")
	for _, file := range o.tree.Files {
		if strings.Contains("/"+file, "/node_modules/") || !slices.ContainsFunc(configurations, func(pattern string) bool {
			ok, err := path.Match(pattern, path.Base(file))
			return ok && err == nil
		}) {
			continue
		}
		text := o.text(file)
		if path.Base(file) == "package.json" {
			text = toolSettings(text)
		}
		for _, setting := range nodeSetting.FindAllStringSubmatch(text, -1) {
			for _, word := range nodePath.FindAllString(setting[2], -1) {
				o.nodeFile(path.Dir(file), word)
			}
		}
	}
}

// toolSettings returns what a package.json says to tools for tests. The rest has words
// of theirs with another meaning: exports name code by import and require.
func toolSettings(text string) string {
	var content map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &content) != nil {
		return ""
	}
	var b strings.Builder
	for _, tool := range []string{"jest", "mocha", "ava", "nyc", "c8", "tap", "karma", "vitest"} {
		b.Write(content[tool])
		b.WriteByte('\n')
	}
	return b.String()
}

// nodeFile adds the file that a word of a configuration in the folder means.
func (o *operands) nodeFile(folder, word string) {
	word = strings.TrimPrefix(word, "<rootDir>/")
	for _, ending := range nodeEndings {
		if name, ok := o.place(path.Join(folder, word+ending)); ok {
			if _, known := o.files[name]; known {
				o.files[name] = true
				return
			}
		}
	}
}
