package runner

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk/regular"
)

// Follow returns the files of the tree that a command runs, directly or through shell scripts, makefiles and
// package.json scripts, and the files that these include, even if they do not exist yet; and the files that
// build files of Maven and Gradle name. patterns match further files of these kinds. built are patterns of
// build output, which later runs may reuse.
func Follow(argv []string, tree *Tree) (files, patterns, built []string) {
	f := &follower{tree: tree, files: map[string]bool{}, tested: map[string]bool{}}
	f.command(argv, 0)
	f.buildFiles()
	for file := range f.tested {
		delete(f.files, file)
	}
	return slices.Sorted(maps.Keys(f.files)), f.patterns, f.built
}

// IsInterpreter reports whether a program runs the script that is its first argument.
func IsInterpreter(program string) bool { return interpreters.MatchString(path.Base(program)) }

type follower struct {
	tree            *Tree
	files           map[string]bool
	patterns, built []string
	// tested are the files whose output a script examines, or whose functions it calls. compared means that
	// the output of the current command is examined.
	tested   map[string]bool
	compared bool
	// examined are the words in substitutions and comparisons of the current script.
	examined []string
}

// maxFollowed limits the depth of scripts that are followed.
const maxFollowed = 6

var (
	// interpreters run the first file argument, testRunners read every one.
	interpreters = regexp.MustCompile(`^(sh|bash|dash|ash|ksh|zsh|fish|source|\.|python[\d.]*|pypy[\d.]*|node|deno|bun|ts-node|tsx|ruby|perl|php|lua[\d.]*|Rscript|julia|java|awk|gawk|expect|bats|tclsh|elixir|escript|swift|groovy|kotlin|osascript|pwsh)$`)
	testRunners  = regexp.MustCompile(`^(pytest|py\.test|mocha|jest|vitest|ava|tap|jasmine|karma|rspec|phpunit|behave|nose2?|nosetests|go|tox|nox|make|gmake|bats|busted|prove|playwright|cypress|mvnw?|gradlew?)$`)
	// commandFlag matches a shell option that is followed by a command.
	commandFlag = regexp.MustCompile(`^-.*c$`)
	// preloads matches options that name a file to load before the script.
	preloads = regexp.MustCompile(`^(-r|--require|--import|--loader|--experimental-loader|--env-file)$`)
	// wrappers run the command that follows them.
	wrappers = regexp.MustCompile(`^(env|exec|time|timeout|nice|nohup|command|sudo|xvfb-run|npx|uv|poetry|pipenv|run|coverage|bundle|stdbuf|setsid|builtin|xargs)$`)
	// includes read a file as a part of the script.
	includes = regexp.MustCompile(`^(\.|source|include)$`)
	// comparers check their input: the command before the pipe is under test, and can be changed.
	comparers = regexp.MustCompile(`^(diff|cmp|grep)$`)
	// examiners look at the files that their arguments name.
	examiners = regexp.MustCompile(`^(diff|cmp|grep|\[|test)$`)
)

// ownFiles are the files that programs read by default.
var ownFiles = map[string][]string{
	"make": {"GNUmakefile", "makefile", "Makefile"}, "gmake": {"GNUmakefile", "makefile", "Makefile"},
	"npm": {"package.json"}, "yarn": {"package.json"}, "pnpm": {"package.json"}, "bun": {"package.json"},
}

// noProgram matches words that can precede a command: NAME=value, and options of a wrapper with their values.
var noProgram = regexp.MustCompile(`^[-\d]|=`)

// command adds what one command runs.
func (f *follower) command(words []string, depth int) {
	first := slices.IndexFunc(words, func(word string) bool { return !noProgram.MatchString(word) })
	if first < 0 || depth > maxFollowed {
		return
	}
	words = words[first:]
	f.addFile(words[0], depth)
	program := strings.TrimSuffix(path.Base(filepath.ToSlash(words[0])), ".exe")
	for _, name := range ownFiles[program] {
		f.addFile(name, depth)
	}
	switch {
	case includes.MatchString(program) && len(words) > 1:
		f.include(words[1], depth)
	case wrappers.MatchString(program):
		f.command(words[1:], depth)
	case program == "cargo":
		f.cargoTargets(words[0])
	}
	f.arguments(program, words[1:], depth)
}

// arguments adds the files in the arguments of an interpreter or a test runner.
func (f *follower) arguments(program string, words []string, depth int) {
	name := module(words)
	switch {
	case name != "" || testRunners.MatchString(program):
		f.pythonModule(name, depth)
		for _, word := range words {
			if name != "doctest" || path.Ext(word) != ".py" { // doctest's file argument is the code under test
				f.operand(word, depth)
			}
		}
	case interpreters.MatchString(program):
		f.script(program, words, depth)
	}
}

// script adds the script in the arguments of an interpreter, and what is loaded before it.
func (f *follower) script(program string, words []string, depth int) {
	before := program
	for i, word := range words {
		switch {
		case commandFlag.MatchString(word) && i+1 < len(words) && !strings.HasPrefix(program, "python"):
			f.shell(words[i+1], depth)
			return
		case f.operand(word, depth) && !strings.HasPrefix(word, "-") && !preloads.MatchString(before):
			return
		}
		before = word
	}
}

// module returns the module of python -m, after options of python, or "".
func module(arguments []string) string {
	for i := 0; i+1 < len(arguments); i++ {
		switch argument := arguments[i]; {
		case argument == "-m":
			return arguments[i+1]
		case argument == "-W" || argument == "-X":
			i++
		case !strings.HasPrefix(argument, "-") || argument == "-c":
			return ""
		}
	}
	return ""
}

// pythonModule adds the files of a module that python -m runs, and of its parent packages.
func (f *follower) pythonModule(name string, depth int) {
	file := strings.ReplaceAll(name, ".", "/")
	if file == "" || !filepath.IsLocal(file) {
		return
	}
	f.addFile(file+".py", depth)
	f.addFile(file+"/__main__.py", depth)
	for ; file != "."; file = path.Dir(file) {
		f.addFile(file+"/__init__.py", depth)
	}
}

// operand adds the file that a word names, as FILE, FILE::test or --flag=FILE.
func (f *follower) operand(word string, depth int) bool {
	if flag, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(flag, "-") {
		word = value
	}
	word, _, _ = strings.Cut(word, "::")
	return f.addFile(word, depth)
}

// addFile adds a file of the tree and follows it if it is a script. It returns false if there is no such file.
func (f *follower) addFile(word string, depth int) bool {
	name, ok := f.localPath(word)
	if !ok || !f.isFile(name) {
		return false
	}
	if f.compared {
		f.tested[name] = true
		return true
	}
	if f.files[name] {
		return true
	}
	f.files[name] = true
	switch base := path.Base(name); {
	case depth > maxFollowed:
	case base == "package.json":
		f.packageScripts(name, depth+1)
	case makefile.MatchString(base):
		f.makefile(name, depth+1)
	case shellScript.MatchString(base + "\n" + f.text(name)):
		f.shell(f.text(name), depth+1)
	}
	return true
}

var (
	makefile = regexp.MustCompile(`\.mk$|^(?i:makefile)$|^GNUmakefile$`)
	// shellScript matches a script's base name, a newline and its text, by the extension or the shebang.
	shellScript = regexp.MustCompile(`\A(?:.*\.(?:ba)?sh\n|.*\n#!\s*\S*/(env\s+(-S\s+)?)?(ba|da|a|k|z)?sh\b)`)
)

// isFile reports whether the tree has a file or link of that name.
func (f *follower) isFile(name string) bool {
	info, err := os.Lstat(filepath.Join(f.tree.Dir, filepath.FromSlash(name)))
	return err == nil && !info.IsDir()
}

// include adds a file, or pattern of files, that a script includes: even one that does not exist yet, as in
// [ -f env.sh ] && . ./env.sh, but not one that defines the functions under test.
func (f *follower) include(word string, depth int) {
	name, ok := f.localPath(word)
	switch {
	case ok && f.isFile(name) && definesCode(f.text(name)):
		f.tested[name] = true
	case ok && strings.ContainsAny(name, "*?[%"):
		f.patterns = append(f.patterns, strings.ReplaceAll(name, "%", "*"))
	case ok && !f.addFile(name, depth):
		f.files[name] = true
	}
}

// localPath returns the path in the tree that a word of a command names.
func (f *follower) localPath(word string) (string, bool) {
	if filepath.IsAbs(word) {
		inside, err := filepath.Rel(f.tree.Dir, word)
		if err != nil {
			return "", false
		}
		word = inside
	}
	word = path.Clean(filepath.ToSlash(word))
	return word, word != "." && filepath.IsLocal(filepath.FromSlash(word))
}

// maxScript limits the size in bytes of scripts that are followed.
const maxScript = 256 << 10

// text returns the content of a regular file of at most maxScript bytes, or "".
func (f *follower) text(name string) string {
	data, err := regular.Read(os.OpenFile, filepath.Join(f.tree.Dir, filepath.FromSlash(name)), maxScript)
	if err != nil {
		return ""
	}
	return string(data)
}

var (
	makeVariable = regexp.MustCompile(`\$[({](\w+)[)}]`)
	makeInclude  = regexp.MustCompile(`^ *[-s]?include[ \t]+(.*)$`)
	makeAssign   = regexp.MustCompile(`(?m)^(\w+)\s*[:?+]?=[ \t]*(.*)$`)
	makeRecipe   = regexp.MustCompile(`^(?:\t|[^\t#]*:[^=;]*;)[-@+ \t]*(.*)`)
)

func (f *follower) makefile(name string, depth int) {
	values, text := map[string]string{}, strings.ReplaceAll(f.text(name), "\\\n", " ")
	for _, match := range makeAssign.FindAllStringSubmatch(text, -1) {
		values[match[1]] = match[2]
	}
	for line := range strings.Lines(text) {
		line = makeVariable.ReplaceAllStringFunc(strings.TrimRight(line, "\n"), func(variable string) string { return values[strings.Trim(variable, "$(){}")] })
		if included := makeInclude.FindStringSubmatch(line); included != nil {
			for file := range strings.FieldsSeq(included[1]) {
				f.include(strings.TrimRight(file, ")"), depth) // the parenthesis of $(wildcard *.inc)
			}
		} else if recipe := makeRecipe.FindStringSubmatch(line); recipe != nil {
			f.shell(strings.ReplaceAll(recipe[1], "$$", "$"), depth)
		}
	}
}

// packageScripts adds what the test and check scripts of a package.json run.
func (f *follower) packageScripts(name string, depth int) {
	var content struct{ Scripts map[string]string }
	if json.Unmarshal([]byte(f.text(name)), &content) != nil {
		return
	}
	for script, text := range content.Scripts {
		if strings.Contains(script, "test") || strings.Contains(script, "check") {
			f.shell(text, depth)
		}
	}
}

// cargoTargets adds the sources of Cargo's tests and build scripts, and all files in the folders of the tests,
// which can be their modules.
func (f *follower) cargoTargets(cargo string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, cargo, "metadata", "--no-deps", "--offline", "--format-version=1")
	command.Dir = f.tree.Dir
	out, err := command.Output()
	var metadata struct {
		Packages []struct {
			Targets []struct {
				Kind    []string
				SrcPath string `json:"src_path"`
			}
		}
	}
	if err != nil || json.Unmarshal(out, &metadata) != nil {
		return // Cargo reports the error itself
	}
	for _, one := range metadata.Packages {
		for _, target := range one.Targets {
			f.cargoTarget(target.Kind[0], target.SrcPath)
		}
	}
}

func (f *follower) cargoTarget(kind, source string) {
	name, ok := f.localPath(source)
	if !ok || !slices.Contains([]string{"test", "bench", "custom-build"}, kind) {
		return
	}
	f.files[name] = true
	if dir := path.Dir(name); kind != "custom-build" && dir != "." && path.Base(dir) != "src" {
		f.patterns = append(f.patterns, dir+"/**")
	}
}

var (
	// jvmFolders matches folders of tests, and of included builds.
	jvmFolders = regexp.MustCompile(`<testSourceDirectory>\s*([^<]+?)\s*<|<testResource>\s*<directory>\s*([^<]+?)\s*<|\bincludeBuild\s*\(?\s*["']([^"']+)["']`)
	buildFile  = regexp.MustCompile(`^pom\.xml$|\.gradle(\.kts)?$`)
	pathWord   = regexp.MustCompile(`[\w@./{}$-]+`)
	// ownFolder matches references of build files to their own folder.
	ownFolder = regexp.MustCompile(`^\$\{?[\w.]+}?/`)
)

func (f *follower) buildFiles() {
	for _, file := range f.tree.Files {
		folder, base := path.Dir(file), path.Base(file)
		if !buildFile.MatchString(base) {
			continue
		}
		output, text := "build", f.text(file)
		if base == "pom.xml" {
			output = "target"
		}
		f.built = append(f.built, path.Join(folder, output)+"/**") // existing output is not always rebuilt
		named := func(word string) string { return path.Join(folder, ownFolder.ReplaceAllString(word, "")) }
		for _, match := range jvmFolders.FindAllStringSubmatch(text, -1) {
			f.patterns = append(f.patterns, named(match[1]+match[2]+match[3])+"/**")
		}
		for _, word := range pathWord.FindAllString(text, -1) {
			if name := named(word); !isJVM(name) && slices.Contains(f.tree.Files, name) {
				f.files[name] = true
			}
		}
	}
}
