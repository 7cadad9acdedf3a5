package policies

import (
	"path/filepath"
	"strings"
)

// Locate returns a path of the policy as seen from the process: relative ones begin in
// the folder of the policy file.
func (p *Policy) Locate(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(p.Path, libraryPrefix) {
		return path
	}
	return filepath.Join(filepath.Dir(p.Path), path)
}
