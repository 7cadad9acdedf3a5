package jail

import (
	"regexp"
	"strings"
	"sync"
)

var patterns sync.Map // those that were compiled

// Match reports whether a slash-separated path fits a pattern: * stands for any part
// of a name, **/ for any folders or none. Without a * it must be the same.
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
