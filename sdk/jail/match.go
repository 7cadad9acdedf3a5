package jail

import (
	"regexp"
	"strings"
	"sync"
)

var patterns sync.Map // compiled patterns by text

// Match reports whether a slash-separated path matches a pattern: * matches any part of a name, **/
// any number of folders. A pattern without a * must equal the path.
func Match(pattern, file string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == file
	}
	compiled, known := patterns.Load(pattern)
	if !known {
		text := regexp.QuoteMeta(pattern)
		text = strings.NewReplacer(`\*\*/`, `(?:.*/)?`, `\*`, `[^/]*`).Replace(text)
		compiled, _ = patterns.LoadOrStore(pattern, regexp.MustCompile(`^`+text+`$`))
	}
	return compiled.(*regexp.Regexp).MatchString(file)
}
