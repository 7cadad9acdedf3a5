package runner

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/stepfall/stepfall/sdk/regular"
)

// Operands returns the files of the tree that a command runs, and the patterns of
// those that tell what it runs how to test: programs and scripts
// that it names, what a program in the tree is installed with, files that known
// frameworks are given, and, through shell scripts, makefiles and the scripts of
// package.json, what those run in turn. built are the patterns of what earlier runs have
// built, which later ones may write.
func Operands(argv []string, tree *Tree) (files, guards, built []string) {
	o := &operands{tree: tree, files: map[string]bool{}, programs: map[string]bool{}}
	for _, file := range tree.Files {
		o.files[file] = false
	}
	o.command(argv, 0)
	var found []string
	for _, file := range tree.Files {
		if o.files[file] || slices.ContainsFunc(o.folders, func(folder string) bool { return strings.HasPrefix(file, folder) }) {
			found = append(found, file)
		}
	}
	for _, program := range slices.Sorted(maps.Keys(o.programs)) {
		guards = append(guards, guardsOf(program)...)
	}
	return append(found, o.links...), append(guards, o.patterns...), o.built
}

// operands follows commands through the files of a tree.
type operands struct {
	tree *Tree
	// files are those of the tree, and whether they are run.
	files map[string]bool
	// folders are run whole: environments with programs in them; links are named
	// paths that are no regular files, or not there.
	folders, links []string
	// patterns are of files that are read as parts of others, built of what builds leave.
	patterns, built []string
	// programs are those that are run, and modules of python -m.
	programs map[string]bool
}

// maxFollowed is how many scripts deep a command is followed.
const maxFollowed = 6

// interpreters run the first file that they are given.
var interpreters = regexp.MustCompile(`^(sh|bash|dash|ash|ksh|zsh|fish|source|\.|python[\d.]*|pypy[\d.]*|node|deno|bun|ts-node|tsx|ruby|perl|php|lua[\d.]*|Rscript|julia|java|awk|gawk|expect|bats|tclsh|elixir|escript|swift|groovy|kotlin|osascript|pwsh)$`)

// frameworks decide by every file that they are given.
var frameworks = regexp.MustCompile(`^(pytest|py\.test|mocha|jest|vitest|ava|tap|jasmine|karma|rspec|phpunit|behave|nose2?|nosetests|go|tox|nox|make|gmake|bats|busted|prove|playwright|cypress)$`)

// nodeTools read the configurations of node's test runners.
var nodeTools = regexp.MustCompile(`^(node|npm|npx|yarn|pnpm|bun|deno|mocha|jest|vitest|ava|tap|jasmine|karma|nyc|c8|playwright|cypress)$`)

// preloads are the options before a file that is loaded before the script.
var preloads = regexp.MustCompile(`^(-r|--require|--import|--loader|--experimental-loader|--env-file)$`)

// wrappers run the command that follows them.
var wrappers = []string{"env", "exec", "time", "timeout", "nice", "nohup", "command", "sudo", "xvfb-run", "npx", "uv", "poetry", "pipenv", "run", "coverage", "bundle", "stdbuf", "setsid", "builtin", "xargs"}

// command adds what one command runs. The words are those of an argument list.
func (o *operands) command(words []string, depth int) {
	for len(words) > 0 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
		words = words[1:] // NAME=value before a command
	}
	if len(words) == 0 || depth > maxFollowed {
		return
	}
	o.run(words[0], depth)
	program := strings.TrimSuffix(path.Base(filepath.ToSlash(words[0])), ".exe")
	rest := words[1:]
	o.programs[program], o.programs[module(rest)] = true, true
	o.pythonModule(module(rest), depth)
	switch {
	case (program == "." || program == "source") && len(rest) > 0:
		o.within(rest[0])
	case slices.Contains(wrappers, program):
		for len(rest) > 0 && (strings.HasPrefix(rest[0], "-") || strings.ContainsAny(rest[0][:1], "0123456789")) {
			rest = rest[1:]
		}
		o.command(rest, depth)
	case program == "make" || program == "gmake":
		for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
			o.makefile(name, depth)
		}
	case program == "npm" || program == "yarn" || program == "pnpm" || program == "bun":
		o.packageScripts("package.json", depth)
	case program == "cargo":
		o.manifests()
	case slices.Contains(javaBuilds, program):
		for _, word := range rest {
			o.named(word, depth)
		}
		o.javaFiles()
	}
	if nodeTools.MatchString(program) {
		o.nodeConfigurations()
	}
	if frameworks.MatchString(program) || module(rest) != "" {
		for _, word := range rest {
			o.named(word, depth)
		}
		return
	}
	if !interpreters.MatchString(program) {
		return
	}
	for i, word := range rest {
		flag := strings.HasPrefix(word, "-")
		if flag && strings.HasSuffix(word, "c") && i+1 < len(rest) && !strings.HasPrefix(program, "python") {
			o.shell(rest[i+1], depth)
			return
		}
		preloaded := i > 0 && preloads.MatchString(rest[i-1])
		if o.named(word, depth) && !flag && !preloaded {
			return
		}
	}
}

// module returns the module of python -m. Options of python may stand before.
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

// pythonModule adds the files of a module that python -m runs, and of the packages
// round it, which are loaded before.
func (o *operands) pythonModule(name string, depth int) {
	file := strings.ReplaceAll(name, ".", "/")
	if file == "" || !filepath.IsLocal(file) {
		return
	}
	o.run(file+".py", depth)
	o.run(file+"/__main__.py", depth)
	for ; file != "."; file = path.Dir(file) {
		o.run(file+"/__init__.py", depth)
	}
}

// named adds the file that a word names, as FILE, FILE::test or --flag=FILE.
func (o *operands) named(word string, depth int) bool {
	if flag, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(flag, "-") {
		word = value
	}
	word, _, _ = strings.Cut(word, "::")
	return o.run(word, depth)
}

// run adds a file of the tree and follows it when it is a script.
func (o *operands) run(word string, depth int) bool {
	name, ok := o.place(word)
	if !ok {
		return false
	}
	done, known := o.files[name]
	if known {
		o.files[name] = true
	} else if info, err := os.Lstat(o.path(name)); err != nil || info.IsDir() {
		return false
	} else {
		o.links = append(o.links, name)
	}
	o.environment(name)
	if done {
		return true
	}
	switch base := path.Base(name); {
	case base == "package.json":
		o.packageScripts(name, depth+1)
	case strings.HasSuffix(base, ".mk") || strings.EqualFold(base, "makefile") || base == "GNUmakefile":
		o.makefile(name, depth+1)
	default:
		if text := o.text(name); shellScript(base, text) {
			o.shell(text, depth+1)
		}
	}
	return true
}

// within adds a file, or those of a pattern, that is read as a part of what reads it.
// It decides also where there is none yet: [ -f env.sh ] && . ./env.sh.
func (o *operands) within(word string) {
	if name, ok := o.place(word); ok && strings.ContainsAny(name, "*?[%") {
		o.patterns = append(o.patterns, strings.ReplaceAll(name, "%", "*"))
	} else if _, known := o.files[name]; ok && !known {
		o.links = append(o.links, name)
	}
}

// environment adds the folder that a program in the tree is installed with.
func (o *operands) environment(name string) {
	parts := strings.Split(name, "/")
	for i := len(parts) - 2; i >= 0; i-- {
		dir := strings.Join(parts[:i+1], "/")
		_, err := os.Stat(o.path(path.Join(dir, "pyvenv.cfg")))
		if parts[i] == "node_modules" || err == nil {
			o.folders = append(o.folders, dir+"/")
			return
		}
	}
}

// place returns the path in the tree that a word of a command means.
func (o *operands) place(word string) (string, bool) {
	if filepath.IsAbs(word) {
		inside, err := filepath.Rel(o.tree.Dir, word)
		if err != nil {
			return "", false
		}
		word = inside
	}
	word = path.Clean(filepath.ToSlash(word))
	return word, word != "." && filepath.IsLocal(filepath.FromSlash(word))
}

func (o *operands) path(name string) string {
	return filepath.Join(o.tree.Dir, filepath.FromSlash(name))
}

// maxScript bounds the scripts that are followed.
const maxScript = 256 << 10

// text returns the content of a regular file that is small enough to be a script.
func (o *operands) text(name string) string {
	data, err := regular.Read(os.OpenFile, o.path(name), maxScript)
	if err != nil {
		return ""
	}
	return string(data)
}

var hashBang = regexp.MustCompile(`^#!\s*\S*/(env\s+(-S\s+)?)?(ba|da|a|k|z)?sh\b`)

func shellScript(base, text string) bool {
	return strings.HasSuffix(base, ".sh") || strings.HasSuffix(base, ".bash") || hashBang.MatchString(text)
}

// shell adds what a script runs.
func (o *operands) shell(text string, depth int) {
	if depth > maxFollowed {
		return
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil || file == nil {
		return // what the shell cannot read it does not run
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok {
			return true
		}
		var words []string
		for _, word := range call.Args {
			words = append(words, literal(word))
		}
		o.command(words, depth)
		return true
	})
}

// literal is a word without its quotes; what is substituted is left out, so that
// "$DIR/check.py" is check.py.
func literal(word *syntax.Word) string {
	var b strings.Builder
	syntax.Walk(word, func(node syntax.Node) bool {
		switch part := node.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
			return false
		}
		return true
	})
	text := b.String()
	if len(word.Parts) > 1 {
		text = strings.TrimPrefix(text, "/")
	}
	return text
}

var makeVariable = regexp.MustCompile(`\$[({](\w+)[)}]`)

var makeInclude = regexp.MustCompile(`(?m)^ *[-s]?include[ \t]+(.*)$`)

var makeAssign = regexp.MustCompile(`(?m)^(\w+)\s*[:?+]?=[ \t]*(.*)$`)

// makefile adds what the recipes of a makefile run.
func (o *operands) makefile(name string, depth int) {
	text := o.text(name)
	if text == "" || depth > maxFollowed {
		return
	}
	if _, known := o.files[name]; known {
		o.files[name] = true
	}
	values := map[string]string{}
	for _, match := range makeAssign.FindAllStringSubmatch(text, -1) {
		values[match[1]] = match[2]
	}
	value := func(variable string) string { return values[makeVariable.FindStringSubmatch(variable)[1]] }
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if included := makeInclude.FindStringSubmatch(line); included != nil {
			for file := range strings.FieldsSeq(makeVariable.ReplaceAllStringFunc(included[1], value)) {
				file = strings.TrimRight(file, ")") // of $(wildcard *.inc)
				o.within(file)
				if o.run(file, depth) {
					o.makefile(file, depth+1)
				}
			}
		}
		recipe, ok := strings.CutPrefix(line, "\t")
		if _, after, inline := strings.Cut(line, ";"); !ok && inline {
			recipe, ok = after, true
		}
		if !ok {
			continue
		}
		recipe = makeVariable.ReplaceAllStringFunc(strings.TrimLeft(recipe, "@-+ \t"), value)
		o.shell(strings.ReplaceAll(recipe, "$$", "$"), depth+1)
	}
}

var (
	cargoTable = regexp.MustCompile(`^\s*\[+\s*"?(\w+)`)
	cargoPath  = regexp.MustCompile(`^\s*(build|path)\s*=\s*["']([^"']+)["']`)
)

// manifests adds the build scripts and the test targets that lie where a Cargo.toml
// says, and what is beside such a target: its modules.
func (o *operands) manifests() {
	for _, file := range o.tree.Files {
		if path.Base(file) != "Cargo.toml" {
			continue
		}
		table := ""
		for line := range strings.Lines(o.text(file)) {
			if header := cargoTable.FindStringSubmatch(line); header != nil {
				table = header[1]
				continue
			}
			match := cargoPath.FindStringSubmatch(line)
			if match == nil || match[1] == "build" && table != "package" || match[1] == "path" && table != "test" && table != "bench" {
				continue
			}
			name, ok := o.place(path.Join(path.Dir(file), match[2]))
			if !ok {
				continue
			}
			if _, known := o.files[name]; known {
				o.files[name] = true
			}
			if folder := path.Dir(name); match[1] == "path" && folder != path.Dir(file) && path.Base(folder) != "src" {
				o.folders = append(o.folders, folder+"/")
			}
		}
	}
}

// packageScripts adds what the scripts of a package.json run.
func (o *operands) packageScripts(name string, depth int) {
	var content struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal([]byte(o.text(name)), &content) != nil || depth > maxFollowed {
		return
	}
	if _, known := o.files[name]; known {
		o.files[name] = true
	}
	for script, text := range content.Scripts {
		if strings.Contains(script, "test") || strings.Contains(script, "check") {
			o.shell(text, depth+1)
		}
	}
}
