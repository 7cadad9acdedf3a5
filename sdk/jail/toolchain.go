package jail

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// SystemPaths returns the paths that every command can read, if they exist: programs and libraries, and
// nothing specific to the machine or its users.
func SystemPaths() []string {
	paths := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/ssl/certs",
		"/etc/maven/m2.conf", "/etc/maven/logging", // settings.xml, beside them, can hold passwords
	}
	java, _ := filepath.Glob("/etc/java-*-openjdk") // the only error is that of a bad pattern
	return append(paths, java...)
}

// ToolPaths returns the paths that a program outside the system paths needs: its folder, the toolchain
// that the folder belongs to, and those of the file and of the folder that they link to. If the program is not found,
// there are none.
func ToolPaths(program string) []string {
	var paths []string
	if slices.Contains([]string{"mvn", "mvnw", "gradle", "gradlew"}, filepath.Base(program)) {
		paths = java() // also for a wrapper script in the tree
	}
	found, err := exec.LookPath(program)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return paths
	}
	folder := filepath.Dir(found)
	for _, folder := range slices.Compact([]string{folder, targetOf(folder), filepath.Dir(targetOf(found))}) {
		if isInstalled(folder) {
			paths = append(paths, folder)
		}
		paths = append(append(paths, toolchain(folder)...), VenvPaths(filepath.Dir(folder))...)
	}
	if base := filepath.Base(found); base == "cargo" || base == "rustc" {
		paths = append(paths, rust()...)
	}
	return paths
}

// PathTools returns the paths that the programs in the PATH outside the system paths need: folders of
// programs and known toolchains. Nothing else beside such a folder is included, such as a project with
// its keys.
func PathTools() []string {
	var paths []string
	folders := append(filepath.SplitList(os.Getenv("PATH")), filepath.Join(os.Getenv("GOROOT"), "bin"), filepath.Join(os.Getenv("VIRTUAL_ENV"), "bin"))
	folders = slices.DeleteFunc(folders, func(folder string) bool { return !filepath.IsAbs(folder) }) // of a variable that is not set, too
	for _, folder := range folders {
		folders = append(folders, targetOf(folder))
	}
	for _, folder := range folders {
		if folder = filepath.Clean(folder); isSystem(folder) {
			continue
		}
		if slices.Contains(programFolders, filepath.Base(folder)) && isInstalled(folder) {
			paths = append(paths, folder)
		}
		paths = append(paths, toolchain(folder)...)
	}
	paths = append(append(paths, rust()...), java()...)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// targetOf returns the path without symbolic links, by which scripts of an environment name their interpreter.
func targetOf(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// programFolders are the names of folders that hold only programs.
var programFolders = []string{"bin", "sbin", "shims", ".bin"}

func isSystem(folder string) bool {
	return slices.ContainsFunc([]string{"/usr/", "/bin/", "/sbin/", "/lib"}, func(path string) bool { return strings.HasPrefix(folder+"/", path) })
}

// isInstalled reports whether a folder is neither a system path nor a parent of all of a user's files.
func isInstalled(folder string) bool {
	user := os.Getenv("HOME")
	return !isSystem(folder) && !slices.Contains([]string{"/", user, filepath.Dir(user)}, folder)
}

// toolchains are the known toolchains: the files that identify them, and the parts that they need.
var toolchains = []struct{ marks, parts []string }{
	{[]string{"VERSION", "src/runtime"}, []string{"VERSION", "go.env", "bin", "pkg", "src", "lib", "misc"}},                            // Go
	{[]string{"pyvenv.cfg"}, []string{"pyvenv.cfg", "bin", "lib", "lib64", "include"}},                                                 // a virtual environment
	{[]string{"conda-meta", "lib"}, []string{"conda-meta", "bin", "lib", "lib64", "libexec", "include", "share", "ssl"}},               // conda
	{[]string{"bin/python3", "lib"}, []string{"bin", "lib", "lib64", "include", "share"}},                                              // Python
	{[]string{"bin/node", "lib/node_modules"}, []string{"bin", "lib", "include", "share"}},                                             // Node
	{[]string{"lib/rustlib"}, []string{"bin", "lib", "libexec", "share", "etc"}},                                                       // Rust
	{[]string{"release", "lib/modules"}, []string{"release", "bin", "lib", "conf", "jmods", "legal", "include"}},                       // Java
	{[]string{"bin/mvn", "boot"}, []string{"bin", "boot", "lib", "conf/logging"}},                                                      // Maven
	{[]string{"bin/gradle", "lib/plugins"}, []string{"bin", "lib", "init.d"}},                                                          // Gradle
	{[]string{"bin/ruby", "lib/ruby"}, []string{"bin", "lib", "include", "share"}},                                                     // Ruby
	{[]string{"Cellar", "opt", "Homebrew"}, []string{"Cellar", "opt", "bin", "sbin", "lib", "libexec", "include", "share", "etc/ssl"}}, // Homebrew
}

// toolchain returns the parts of the toolchain whose programs are in folder, or none if it is unknown.
func toolchain(folder string) []string {
	prefix := filepath.Dir(folder)
	if filepath.Base(folder) == "shims" {
		return pyenv(managerFolder(prefix, "pyenv"))
	}
	if isSystem(folder) || filepath.Base(folder) != "bin" {
		return nil
	}
	for _, kind := range toolchains {
		if len(existingParts(prefix, kind.marks)) == len(kind.marks) {
			return existingParts(prefix, kind.parts)
		}
	}
	return nil
}

func existingParts(prefix string, parts []string) (paths []string) {
	for _, part := range parts {
		if path := filepath.Join(prefix, filepath.FromSlash(part)); exists(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// VenvPaths returns the paths that a Python virtual environment needs elsewhere: the installation that
// its pyvenv.cfg names, and the folder of the interpreter that it links to.
func VenvPaths(dir string) []string {
	settings, err := os.ReadFile(filepath.Join(dir, "pyvenv.cfg"))
	if err != nil {
		return nil
	}
	var paths []string
	folders := []string{}
	for line := range strings.Lines(string(settings)) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "home" {
			folders = append(folders, strings.TrimSpace(value))
		}
	}
	real, _ := filepath.EvalSymlinks(filepath.Join(dir, "bin", "python"))
	for _, folder := range append(folders, filepath.Dir(real)) {
		if filepath.IsAbs(folder) && isInstalled(folder) && exists(folder) {
			paths = append(append(paths, folder), toolchain(folder)...)
		}
	}
	return paths
}

// pyenv returns the paths that pyenv's shims execute and read.
func pyenv(root string) []string {
	if !exists(filepath.Join(root, "libexec", "pyenv")) {
		return nil
	}
	return existingParts(root, []string{"bin", "libexec", "pyenv.d", "plugins", "shims", "versions", "version", "completions"})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// rust returns Rust's folders, except credentials.toml beside them.
func rust() []string {
	cargo := home("CARGO_HOME", ".cargo")
	return []string{filepath.Join(cargo, "bin"), filepath.Join(cargo, "registry"), filepath.Join(cargo, "git"), home("RUSTUP_HOME", ".rustup")}
}

// java returns the JDK in use and the downloads of Maven and Gradle, except settings.xml and
// gradle.properties beside them.
func java() []string {
	gradle := home("GRADLE_USER_HOME", ".gradle")
	paths := []string{
		mavenRepository(), filepath.Join(home("MAVEN_USER_HOME", ".m2"), "wrapper"),
		filepath.Join(gradle, "caches", "modules-2"), filepath.Join(gradle, "wrapper", "dists"),
	}
	if root := os.Getenv("JAVA_HOME"); filepath.IsAbs(root) {
		paths = append(paths, toolchain(filepath.Join(root, "bin"))...)
	}
	if found, err := exec.LookPath("java"); err == nil {
		folder, real := filepath.Dir(found), filepath.Dir(targetOf(found))
		paths = slices.Concat(paths, []string{folder}, toolchain(folder), toolchain(real))
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !exists(path) || !isInstalled(path) })
}

func mavenRepository() string { return filepath.Join(home("MAVEN_USER_HOME", ".m2"), "repository") }

func home(variable, folder string) string {
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	return filepath.Join(os.Getenv("HOME"), folder)
}

// ToolEnv returns the environment that toolchains outside the system paths need, because HOME differs
// in the jail. It holds no secret.
func ToolEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "NO_COLOR=1", "CI=1", "TERM=dumb"}
	for variable, folder := range map[string]string{"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"} {
		if dir := home(variable, folder); exists(dir) {
			env = append(env, variable+"="+dir)
		}
	}
	for _, variable := range []string{"RUSTUP_TOOLCHAIN", "PYENV_ROOT", "VIRTUAL_ENV", "JAVA_HOME"} {
		if root := os.Getenv(variable); root != "" {
			env = append(env, variable+"="+root)
		}
	}
	if repository := mavenRepository(); exists(repository) {
		env = append(env, "MAVEN_OPTS=-Dmaven.repo.local="+repository)
	}
	if cache := filepath.Join(home("GRADLE_USER_HOME", ".gradle"), "caches"); exists(filepath.Join(cache, "modules-2")) {
		env = append(env, "GRADLE_RO_DEP_CACHE="+cache)
	}
	slices.Sort(env)
	return env
}
