package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// SystemPaths are what every command may read, where they exist: programs and
// libraries, and nothing about the machine or its users.
var SystemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/ssl/certs",
}

// ToolPaths returns the folders of a program that is not installed in a system
// path: where it is, the prefix above its bin folder, and the homes of Rust.
func ToolPaths(program string) []string {
	found, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	found, err = filepath.Abs(found)
	if err != nil {
		return nil
	}
	paths := []string{}
	add := func(path string) {
		for _, system := range []string{"/usr/", "/bin/", "/sbin/", "/lib"} {
			if strings.HasPrefix(path+"/", system) {
				return
			}
		}
		if path != "/" && path != filepath.Dir(os.Getenv("HOME")) && path != os.Getenv("HOME") {
			paths = append(paths, path)
		}
	}
	add(prefix(found))
	if real, err := filepath.EvalSymlinks(found); err == nil {
		add(prefix(real))
	}
	if base := filepath.Base(found); base == "cargo" || base == "rustc" {
		add(home("CARGO_HOME", ".cargo"))
		add(home("RUSTUP_HOME", ".rustup"))
	}
	if root := os.Getenv("PYENV_ROOT"); root != "" && strings.HasPrefix(found, root) {
		add(root)
	}
	return paths
}

func prefix(program string) string {
	dir := filepath.Dir(program)
	if base := filepath.Base(dir); base == "bin" || base == "shims" {
		return filepath.Dir(dir)
	}
	return dir
}

func home(variable, folder string) string {
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	return filepath.Join(os.Getenv("HOME"), folder)
}

// ToolEnv is the environment that toolchains outside of the system paths need to
// be told, because HOME is another one in the jail.
func ToolEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "NO_COLOR=1", "CI=1", "TERM=dumb"}
	for variable, folder := range map[string]string{"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"} {
		if dir := home(variable, folder); exists(dir) {
			env = append(env, variable+"="+dir)
		}
	}
	if root := os.Getenv("PYENV_ROOT"); root != "" {
		env = append(env, "PYENV_ROOT="+root)
	}
	return env
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
