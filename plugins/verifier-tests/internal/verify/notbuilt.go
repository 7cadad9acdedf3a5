package verify

import (
	"regexp"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
)

var (
	// failedCrate matches cargo's message about what was tested and does not compile itself, where only sources of tests
	// have changed.
	failedCrate = regexp.MustCompile("could not compile `[^`]*` \\((?:lib|bin \"[^\"]*\")\\)")
	// takenIn matches a file that Rust code takes in when it is compiled, with its name if that is plain.
	takenIn = regexp.MustCompile(`\binclude(?:_str|_bytes)?\s*!\s*(?:[(\[{]\s*"([^"]*)"\s*,?\s*[)\]}])?|#\s*!?\s*\[\s*(?:cfg_attr\s*\([^\]]*,\s*)?path\s*=`)
)

// readsWhenCompiled reports whether tests that did not compile with notes or altered expectations may fail to because of
// what the answer's code reads of them while it is compiled: anything but plainly named files that are no code.
func (e *expectations) readsWhenCompiled() bool {
	if !notCompiled.MatchString(e.broken) {
		return false
	}
	for _, change := range e.a.changes {
		if alter.Language(change.Path) != "rust" {
			continue
		}
		for _, found := range takenIn.FindAllSubmatch(change.Data, -1) {
			if name := string(found[1]); name == "" || strings.HasSuffix(name, ".rs") {
				return true
			}
		}
	}
	return failedCrate.MatchString(e.broken)
}
