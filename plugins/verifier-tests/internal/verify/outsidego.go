package verify

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

// goAsker asks code in Go, by a program for each package that is compiled once and answers in a
// process of its own for each group of questions.
type goAsker struct{ e *expectations }

// begins: see alter, where packages whose tests begin with something have no questions.
func (g *goAsker) begins(string, string) bool { return false }

// shows leaves out tests, but for what shows those beside a package what is its own.
func (g *goAsker) shows(file, text string) (string, bool) {
	return text, !strings.HasSuffix(file, "_test.go") || strings.HasPrefix(path.Base(file), "export")
}

// goProgram is the program with the questions of one package.
type goProgram struct {
	folder, text string
	questions    []alter.Question
}

// programs are those of the questions of some groups.
func goPrograms(groups [][]alter.Question) (programs []*goProgram, err error) {
	for _, q := range slices.Concat(groups...) {
		folder := path.Dir(q.File)
		clause, _, _ := strings.Cut(q.Program, "\n")
		at := slices.IndexFunc(programs, func(p *goProgram) bool {
			first := p.questions[0]
			return p.folder == folder && first.Apart == q.Apart && strings.HasPrefix(first.Program, clause+"\n")
		})
		if at < 0 {
			at, programs = len(programs), append(programs, &goProgram{folder: folder})
		}
		if !slices.ContainsFunc(programs[at].questions, func(o alter.Question) bool { return o.Program == q.Program }) {
			programs[at].questions = append(programs[at].questions, q)
		}
	}
	for _, p := range programs {
		if p.text, err = alter.GoQuestions(p.questions); err != nil {
			return nil, fmt.Errorf("making questions: %w", err)
		}
	}
	return programs, nil
}

func (g *goAsker) answers(ctx context.Context, groups [][]alter.Question, changes []jail.Change) ([][]string, error) {
	e := g.e
	if e.v.config.Containers != nil {
		return nil, nil
	}
	programs, err := goPrograms(groups)
	if err != nil {
		return nil, err
	}
	plan, err := e.v.runner.Plan(e.v.config.Command, &e.a.tree.Tree, rand.Text())
	if err != nil || len(plan.Caches) == 0 {
		return nil, err
	}
	script, parts := goScript(programs, groups, e.goCommand())
	dir := ".stepfall-" + strings.ToLower(rand.Text())
	spec := &jail.Spec{
		Dir: e.a.tree.Dir, Argv: []string{"sh", dir + "/ask", dir},
		Changes: append(emptied(changes), jail.Change{Path: dir + "/ask", Data: []byte(script)}),
		Env:     slices.Concat(jail.ToolEnv(), e.v.programs().env, plan.Env, e.v.config.Env, plan.Last), Require: e.v.config.Require, Caches: plan.Caches,
		ReadOnly: slices.Concat(jail.SystemPaths(), jail.ToolPaths(e.v.config.Command[0]), e.v.programs().paths, e.a.tree.installedFolders(), plan.ReadOnly, e.v.config.ReadOnly),
		Limits:   jail.Limits{Wall: e.v.config.Timeout, Memory: e.v.config.MemoryBytes, Disk: e.v.config.DiskBytes, Processes: e.v.config.Processes, Output: e.v.config.OutputBytes},
	}
	for i := range spec.Caches {
		spec.Caches[i].Keep = ""
	}
	for i, p := range programs {
		spec.Changes = append(spec.Changes, jail.Change{Path: fmt.Sprintf("%s/%d_test.go", dir, i), Data: []byte(p.text)})
	}
	result, err := e.a.tree.walls.Run(ctx, spec)
	if err != nil || result.End != jail.EndExit {
		return nil, err
	}
	return readAnswers(string(result.Stdout), groups, parts), nil
}

// emptied are the changes with files empty that are left out and no code, which code may embed.
func emptied(changes []jail.Change) []jail.Change {
	all := slices.Clone(changes)
	isEmbedding := slices.ContainsFunc(changes, func(c jail.Change) bool { return strings.Contains(string(c.Data), "//go:embed") })
	for i, c := range all {
		if isEmbedding && c.Delete && !isCode(c.Path) && !strings.HasPrefix(c.Path, ".") {
			all[i] = jail.Change{Path: c.Path}
		}
	}
	return all
}

// goCommand is the go command with the flags by which the tests are built.
func (e *expectations) goCommand() []string {
	command := []string{"go", "test", "-c"}
	if argv := e.v.config.Command; filepath.Base(argv[0]) == "go" {
		command = append([]string{argv[0], "test", "-c"}, runner.BuildFlags(argv)...)
	}
	return command
}

// goPart is what a process answers: the questions of a group, by their places in it.
type goPart struct {
	group  int
	places []int
}

// goScript is the script that has programs compiled, and questions answered, which its argument says
// where to keep, and the parts of its output, each of which ends in a line of its number.
func goScript(programs []*goProgram, groups [][]alter.Question, command []string) (script string, parts []goPart) {
	var b strings.Builder
	b.WriteString("exec 3>&1 1>&2; here=$PWD/$1; rm -f \"$1/ask\"\n")
	for i, p := range programs {
		fmt.Fprintf(&b, "(cd %s && cp \"$here/%d_test.go\" stepfall_test.go &&", quoteForShell("./"+p.folder), i)
		for _, word := range command {
			b.WriteString(" " + quoteForShell(word))
		}
		fmt.Fprintf(&b, " -o \"$here/%d\" .; rm -f stepfall_test.go \"$here/%d_test.go\")\n", i, i)
	}
	for number, group := range groups {
		for i, p := range programs {
			part, numbers := goPart{group: number}, ""
			for place, q := range group {
				at := slices.IndexFunc(p.questions, func(o alter.Question) bool { return o.Program == q.Program })
				if at >= 0 && path.Dir(q.File) == p.folder && p.questions[0].Apart == q.Apart {
					part.places, numbers = append(part.places, place), numbers+strconv.Itoa(at)+"\\n"
				}
			}
			if len(part.places) == 0 {
				continue
			}
			fmt.Fprintf(&b, "a=; if test -x \"$here/%d\"; then a=$(cd %s && printf '%s' | \"$here/%d\" -test.run=^TestQuestions$ -test.timeout=20s 3>&1 >/dev/null 2>&1); echo asked; fi >&3; printf '%%s\\n%d\\n' \"$a\" >&3\n",
				i, quoteForShell("./"+p.folder), numbers, i, len(parts))
			parts = append(parts, part)
		}
	}
	return b.String(), parts
}

func quoteForShell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// ownNames matches an answer that says where it is called from.
var ownNames = regexp.MustCompile(`_question\d|stepfall_test|TestQuestions`)

// readAnswers reads what a script of goScript printed; of a program that was not built the answers
// are not known.
func readAnswers(output string, groups [][]alter.Question, parts []goPart) [][]string {
	answers := make([][]string, len(groups))
	for i, group := range groups {
		answers[i] = make([]string, len(group))
	}
	lines := strings.Split(output, "\n")
	for number, part := range parts {
		end := slices.Index(lines, strconv.Itoa(number))
		if end < 0 {
			return nil
		}
		if found := lines[:end]; len(found) > 0 && found[0] == "asked" {
			for i, place := range part.places {
				switch answer := slices.Concat(found[1:], make([]string, len(part.places)))[i]; {
				case answer == "":
					answers[part.group][place] = "raised nothing, and ended"
				case !ownNames.MatchString(answer):
					answers[part.group][place] = answer
				}
			}
		}
		lines = lines[end+1:]
	}
	return answers
}
