// Command mutants runs mutation tests: it changes the code of a package in many small ways and counts which mutants
// the package's own tests detect, by default without those that -short skips:
//
//	go run ./adapters/internal/mutants ./sdk/step
//
// A mutant is the code with one operator replaced: < by <= and >=, == by !=, + by -, * by /, % by *, ++ by --, and
// vice versa. It is covered when a test runs its block or, outside any block, such as in the condition of a case, its
// statement. It is killed when a test fails or times out, and lives otherwise. A change that does not compile is not
// a mutant.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/cover"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// replacements maps an operator to those that replace it.
var replacements = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR}, token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL}, token.INC: {token.DEC}, token.DEC: {token.INC},
}

type mutant struct {
	at       token.Position
	stmt     token.Position // start of the enclosing statement; for a case, of the switch
	from, to token.Token
	result   string // "killed", "lives", "does not compile", or empty while it is not tried
}

// pkg is the package under test.
type pkg struct {
	Dir, ImportPath string
	GoFiles         []string
	short           bool
	timeout         time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	sample := flags.Int("sample", 0, "try so many of the covered mutants, drawn at random; 0 tries all")
	seed := flags.Uint64("seed", 1, "the seed of the draw")
	all := flags.Bool("all", false, "run also the tests that -short leaves out")
	workers := flags.Int("workers", 2, "how many mutants are tried at once")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return errors.Join(err, errors.New("usage: mutants [flags] PACKAGE"))
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	listed, err := exec.CommandContext(ctx, "go", "list", "-json", flags.Arg(0)).Output()
	if err != nil {
		return fmt.Errorf("listing %s: %w", flags.Arg(0), err)
	}
	p := &pkg{short: !*all}
	if err := json.Unmarshal(listed, p); err != nil {
		return err
	}
	mutants, err := p.mutants()
	if err != nil {
		return err
	}
	total := len(mutants)
	if mutants, err = p.findCovered(ctx, tmp, mutants, out); err != nil {
		return err
	}
	covered := len(mutants)
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(covered, func(i, k int) { mutants[i], mutants[k] = mutants[k], mutants[i] })
	if *sample > 0 {
		mutants = mutants[:min(*sample, covered)]
	}
	var group errgroup.Group
	group.SetLimit(max(*workers, 1))
	for i := range mutants {
		group.Go(func() (err error) {
			if ctx.Err() == nil { // results before an interrupt count
				err = p.try(ctx, filepath.Join(tmp, fmt.Sprint(i)), &mutants[i])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	results := map[string]int{}
	for _, m := range mutants {
		if results[m.result]++; m.result == "lives" {
			fmt.Fprintf(out, "%s:%d:%d: %s for %s: lives\n", filepath.Base(m.at.Filename), m.at.Line, m.at.Column, m.to, m.from)
		}
	}
	tried := results["killed"] + results["lives"]
	fmt.Fprintf(out, "%s: %d changes, %d covered (%.1f %%), %d tried, %d killed (%.1f %%), %d live, %d do not compile\n",
		flags.Arg(0), total, covered, percent(covered, total), tried, results["killed"], percent(results["killed"], tried), results["lives"], results["does not compile"])
	return ctx.Err()
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

func (p *pkg) mutants() (list []mutant, err error) {
	fset := token.NewFileSet()
	var around []ast.Node
	add := func(pos token.Pos, op token.Token) {
		var stmt token.Position
		for _, n := range around {
			switch n.(type) {
			case *ast.BlockStmt, *ast.CaseClause:
			case ast.Stmt:
				stmt = fset.Position(n.Pos())
			}
		}
		for _, to := range replacements[op] {
			list = append(list, mutant{at: fset.Position(pos), stmt: stmt, from: op, to: to})
		}
	}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				around = around[:len(around)-1]
				return false
			}
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				return false
			}
			around = append(around, n)
			switch n := n.(type) {
			case *ast.BinaryExpr:
				add(n.OpPos, n.Op)
			case *ast.IncDecStmt:
				add(n.TokPos, n.Tok)
			case *ast.UnaryExpr:
				if n.Op == token.SUB {
					add(n.OpPos, n.Op)
				}
			}
			return true
		})
	}
	return list, nil
}

// findCovered runs the tests without a mutant, sets the timeout of mutants, and returns the mutants in blocks that
// the tests run.
func (p *pkg) findCovered(ctx context.Context, tmp string, list []mutant, out io.Writer) (covered []mutant, err error) {
	profile, binary := filepath.Join(tmp, "profile"), filepath.Join(tmp, "tests")
	if text, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-cover", "-o", binary, p.ImportPath).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the tests of %s: %w\n%s", p.ImportPath, err, text)
	}
	start := time.Now()
	if text, err := p.command(ctx, binary, "-test.coverprofile="+profile).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests of %s fail without a mutant, so that nothing can be said of them: %w\n%s", p.ImportPath, err, text)
	}
	p.timeout = 10*time.Second + 5*time.Since(start)
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		isCovered, inBlock := runs(profiles, m.at)
		if !inBlock && m.stmt.IsValid() {
			isCovered, inBlock = runs(profiles, m.stmt)
		}
		if isCovered || !inBlock { // package variables are always initialised
			covered = append(covered, m)
		} else {
			fmt.Fprintf(out, "%s:%d:%d: %s for %s: not covered\n", filepath.Base(m.at.Filename), m.at.Line, m.at.Column, m.to, m.from)
		}
	}
	return covered, nil
}

// runs reports whether the tests run the block at a position, and whether there is one.
func runs(profiles []*cover.Profile, at token.Position) (isCovered, inBlock bool) {
	for _, f := range profiles {
		if filepath.Base(f.FileName) != filepath.Base(at.Filename) {
			continue
		}
		for _, b := range f.Blocks {
			if !isBefore(at.Line, at.Column, b.StartLine, b.StartCol) && isBefore(at.Line, at.Column, b.EndLine, b.EndCol) {
				isCovered, inBlock = isCovered || b.Count > 0, true
			}
		}
	}
	return isCovered, inBlock
}

func isBefore(line, column, otherLine, otherColumn int) bool {
	return line < otherLine || line == otherLine && column < otherColumn
}

func (p *pkg) try(ctx context.Context, dir string, m *mutant) error {
	source, err := os.ReadFile(m.at.Filename)
	if err != nil {
		return err
	}
	file, overlay, binary := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tests")
	changed := slices.Concat(source[:m.at.Offset], []byte(m.to.String()), source[m.at.Offset+len(m.from.String()):])
	config, err := json.Marshal(map[string]any{"Replace": map[string]string{m.at.Filename: file}})
	if err := errors.Join(err, os.Mkdir(dir, 0o700), os.WriteFile(file, changed, 0o600), os.WriteFile(overlay, config, 0o600)); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay, "-o", binary, p.ImportPath).CombinedOutput()
	if err != nil {
		if m.result = "does not compile"; ctx.Err() != nil || !bytes.Contains(text, []byte("mutant.go")) && !strings.Contains(string(text), filepath.Base(m.at.Filename)) {
			return fmt.Errorf("building a mutant: %w\n%s", err, text)
		}
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	if err := p.command(limited, binary, "-test.failfast").Run(); ctx.Err() != nil {
		return ctx.Err()
	} else if m.result = "lives"; err != nil {
		m.result = "killed"
	}
	return nil
}

// command runs the tests as go test does, with limited memory.
func (p *pkg) command(ctx context.Context, binary string, args ...string) *exec.Cmd {
	args = append([]string{"-c", `ulimit -v 8000000 2>/dev/null; exec "$@"`, "sh", binary, fmt.Sprintf("-test.short=%t", p.short), "-test.paniconexit0"}, args...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir, cmd.WaitDelay = p.Dir, time.Second
	return cmd
}
