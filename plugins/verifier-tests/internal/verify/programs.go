package verify

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// programs are the environment and paths with which a script or makefile finds the same interpreters by name as
// its user does.
type programs struct{ env, paths []string }

// findPrograms finds the interpreters in the PATH. If one is a version manager's shim, the folder of the program
// itself is put first in the PATH, because a shim in the jail does not find its manager. A command that is itself a
// test runner needs none.
func (v *Verifier) findPrograms() (p programs) {
	if v.containers != nil || !v.runner.IsExitCode {
		return p
	}
	var folders []string
	for _, name := range []string{"python3", "node", "ruby"} {
		named, found := locate(context.Background(), name)
		if found == "" {
			continue
		}
		p.paths = append(p.paths, jail.ToolPaths(found)...)
		if folder := filepath.Dir(found); named != name && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	if len(folders) > 0 {
		p.env = []string{"PATH=" + strings.Join(append(folders, os.Getenv("PATH")), string(filepath.ListSeparator))}
	}
	return p
}

// locate returns the command that starts a program (see [jail.Program]) and its path, or "" if there is none.
func locate(ctx context.Context, name string) (named, path string) {
	named, err := jail.Program(ctx, name)
	if err != nil {
		return "", ""
	}
	if path, err = exec.LookPath(named); err != nil {
		return "", ""
	}
	return named, path
}
