package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// managers are the version managers that put a directory of shims into the PATH; each has `which NAME`.
var managers = []string{"pyenv", "rbenv", "nodenv", "goenv", "asdf", "mise"}

// Program returns the program to start for a name in the PATH. If that is a shim of a version manager
// such as pyenv or asdf, it returns the path of the program that the shim would run here and now, and
// otherwise the name itself. In a jail, a shim finds neither its manager nor the user's version, and a
// file in the tree could select another. The error tells the user what to do.
func Program(ctx context.Context, name string) (string, error) {
	found, err := exec.LookPath(name)
	if err != nil || strings.ContainsAny(name, `/\`) || filepath.Base(filepath.Dir(found)) != "shims" {
		return name, nil //nolint:nilerr // who starts it says that it is not there
	}
	root := filepath.Dir(filepath.Dir(found))
	for _, manager := range managers {
		command := managerCommand(root, manager)
		if command == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		which := exec.CommandContext(ctx, command, "which", name)
		which.Env = os.Environ()
		if variable := strings.ToUpper(manager) + "_ROOT"; strings.HasSuffix(manager, "env") && os.Getenv(variable) == "" {
			which.Env = append(which.Env, variable+"="+managerFolder(root, manager))
		}
		out, err := which.Output()
		if real := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(real) && exists(real) {
			return real, nil
		}
		why := err
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && len(exit.Stderr) > 0 {
			why = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s is a script of %s, which names no program (%w): write the path of the program itself", found, manager, why)
	}
	return name, nil
}

// managerCommand returns the command of a manager if root's shims belong to it, otherwise "".
func managerCommand(root, manager string) string {
	for _, folder := range []string{filepath.Join(root, "bin"), filepath.Join(root, "libexec"), filepath.Join(managerFolder(root, manager), "bin")} {
		if command := filepath.Join(folder, manager); exists(command) {
			return command
		}
	}
	if !strings.Contains(filepath.Base(root), manager) {
		return ""
	}
	command, err := exec.LookPath(manager)
	if err != nil {
		return ""
	}
	return command
}

func managerFolder(root, manager string) string {
	if plugins := filepath.Dir(root); filepath.Base(plugins) == "plugins" {
		return filepath.Dir(plugins)
	}
	return root
}
