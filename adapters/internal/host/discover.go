package host

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// PathEnv names the environment variable with additional plugin folders.
const PathEnv = "STEPFALL_PLUGIN_PATH"

// SearchPath returns the folders that are searched for plugins, in order: STEPFALL_PLUGIN_PATH, plugins/
// beside the executable, the user's data folder, the system's folders.
func SearchPath() []string {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv(PathEnv)) {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		dirs = append(dirs, filepath.Join(filepath.Dir(exe), "plugins"))
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		dirs = append(dirs, filepath.Join(data, "stepfall", "plugins"))
	} else if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local", "share", "stepfall", "plugins"))
	}
	if runtime.GOOS != "windows" {
		dirs = append(dirs, "/usr/local/lib/stepfall/plugins", "/usr/lib/stepfall/plugins")
	}
	return dirs
}

// PluginFile is a program that could be a plugin.
type PluginFile struct {
	Name string
	Path string
}

// List returns the programs in the folders, sorted by name. The first of each name counts. Missing folders
// are skipped.
func List(dirs []string) []PluginFile {
	seen := map[string]bool{}
	var out []PluginFile
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			name := strings.TrimSuffix(e.Name(), ".exe")
			if seen[name] || CheckProgram(path) != nil {
				continue
			}
			seen[name] = true
			out = append(out, PluginFile{Name: name, Path: path})
		}
	}
	slices.SortFunc(out, func(a, b PluginFile) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (h *Host) find(plugin string) (string, error) {
	if path := h.cfg.Plugins[plugin].Path; path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		if err := CheckProgram(path); err != nil {
			return "", fmt.Errorf("plugin %s: %w", plugin, err)
		}
		return path, nil
	}
	if plugin == "" || plugin != filepath.Base(plugin) || strings.HasPrefix(plugin, ".") {
		return "", fmt.Errorf("%w: %q is not a plugin name", errNotFound, plugin)
	}
	for _, dir := range h.searchPath {
		for _, suffix := range suffixes() {
			path := filepath.Join(dir, plugin+suffix)
			err := CheckProgram(path)
			if err == nil {
				return filepath.Abs(path)
			}
			if !os.IsNotExist(err) {
				return "", fmt.Errorf("plugin %s: %w", plugin, err)
			}
		}
	}
	return "", fmt.Errorf("%w: %s is in none of %s; name its folder in STEPFALL_PLUGIN_PATH, or its program by path in the policy's plugin block",
		errNotFound, plugin, strings.Join(h.searchPath, ", "))
}

func suffixes() []string {
	if runtime.GOOS == "windows" {
		return []string{".exe", ""}
	}
	return []string{""}
}

// CheckProgram returns an error if path is not a program, or if other users can write to it.
func CheckProgram(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case runtime.GOOS == "windows":
		return nil
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable", path)
	}
	if who := writableBy(path, info); who != "" {
		return fmt.Errorf("%s is writable by %s; run chmod go-w on it", path, who)
	}
	return checkFolders(path)
}

// otherOwner is the result of writableBy for files of users other than this one and root.
const otherOwner = "its owner, who is another user"

// checkFolders returns an error if another user could replace the program at path by writing to a folder
// above it or above the file that it links to.
func checkFolders(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, way := range []string{path, real} {
		for dir := filepath.Dir(way); ; dir = filepath.Dir(dir) {
			info, err := os.Stat(dir)
			if err != nil {
				return err
			}
			if who := writableBy(dir, info); who != "" && (who != otherOwner || dir == filepath.Dir(way)) {
				return fmt.Errorf("%s is in %s, which is writable by %s; run chmod go-w on it", path, dir, who)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}
