package jail

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// SystemPaths are what every command may read, where they exist: programs and
// libraries, and nothing about the machine or its users.
func SystemPaths() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/ssl/certs",
	}
}

// ToolPaths are what a program needs that is not installed in a system path:
// the folder where it is, or the prefix above its bin folder, also of what it
// links to, and the toolchains of Rust and pyenv when it is of them. A program
// that is not found needs nothing.
func ToolPaths(program string) []string {
	found, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	found, err = filepath.Abs(found)
	if err != nil {
		return nil
	}
	paths := installed(filepath.Dir(found))
	if real, err := filepath.EvalSymlinks(found); err == nil {
		paths = append(paths, installed(filepath.Dir(real))...)
	}
	if base := filepath.Base(found); base == "cargo" || base == "rustc" {
		paths = append(paths, rust()...)
	}
	if root := os.Getenv("PYENV_ROOT"); root != "" && strings.HasPrefix(found, root) {
		paths = append(paths, root)
	}
	return paths
}

// PathTools are what all programs of the PATH need that are not installed in a
// system path.
func PathTools() []string {
	var paths []string
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(folder) {
			paths = append(paths, installed(filepath.Clean(folder))...)
		}
	}
	paths = append(paths, rust()...)
	for _, variable := range []string{"GOROOT", "PYENV_ROOT", "VIRTUAL_ENV"} {
		if root := os.Getenv(variable); filepath.IsAbs(root) {
			paths = append(paths, root)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// installed returns what lies round the folder of a program: the prefix above a
// bin folder, but never a user's home, nor what keeps secrets beside programs.
func installed(folder string) []string {
	for _, system := range []string{"/usr/", "/bin/", "/sbin/", "/lib"} {
		if strings.HasPrefix(folder+"/", system) {
			return nil
		}
	}
	prefix := folder
	if base := filepath.Base(folder); base == "bin" || base == "sbin" || base == "shims" {
		prefix = filepath.Dir(folder)
	}
	user := os.Getenv("HOME")
	switch prefix {
	case home("CARGO_HOME", ".cargo"):
		return rust()
	case filepath.Join(user, ".local"):
		return []string{folder, filepath.Join(prefix, "lib")}
	case "/", user, filepath.Dir(user):
		if folder == user {
			return nil
		}
		return []string{folder}
	}
	return []string{prefix}
}

// rust leaves out credentials.toml, which lies in the same folder.
func rust() []string {
	cargo := home("CARGO_HOME", ".cargo")
	return []string{filepath.Join(cargo, "bin"), filepath.Join(cargo, "registry"), filepath.Join(cargo, "git"), home("RUSTUP_HOME", ".rustup")}
}

func home(variable, folder string) string {
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	return filepath.Join(os.Getenv("HOME"), folder)
}

// ToolEnv is the environment that toolchains outside of the system paths need to
// be told, because HOME is another one in the jail. It holds no secret.
func ToolEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "NO_COLOR=1", "CI=1", "TERM=dumb"}
	for variable, folder := range map[string]string{"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"} {
		dir := home(variable, folder)
		if _, err := os.Stat(dir); err == nil {
			env = append(env, variable+"="+dir)
		}
	}
	for _, variable := range []string{"PYENV_ROOT", "VIRTUAL_ENV"} {
		if root := os.Getenv(variable); root != "" {
			env = append(env, variable+"="+root)
		}
	}
	slices.Sort(env)
	return env
}
