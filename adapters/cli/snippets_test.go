package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// snippetsFile holds, as code that compiles, the routers that the Go code of the documentation builds. It is
// extracted verbatim from the pages, the doc comments, the examples and the Example functions, except for the models
// themselves, callbacks and interceptors, which a replay replaces.
const snippetsFile = "snippets_generated_test.go"

// snippet is one place where the documentation builds a router.
type snippet struct {
	name string
	// make returns what is given to router.Open, router.Wrap or middleware.New: opening,
	// wrapping or middleware.Config.
	make func(small, large llms.Model) any
}

type opening struct {
	// policy is the text of the policy, where the Go has it in itself; otherwise path names
	// a file beside it.
	policy, path string
	options      router.Options
}

type wrapping struct {
	worthUSD float64
	options  router.Options
}

// Answers of the replay that the documentation's judges distinguish.
const rightAnswer, wrongAnswer = `{"dozen": 13}`, "a plain dozen"

// check is the judge of doc comments that only name one.
func check(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	if req.Answer.Text == rightAnswer {
		return &sdk.Verdict{Outcome: sdk.Passed}, nil
	}
	return &sdk.Verdict{Outcome: sdk.Failed}, nil
}

// mode is one of the modes of examples/observe-then-enforce.
const mode = "enforce"

// TestSnippetsAreCurrent compares the generated file with the documentation.
func TestSnippetsAreCurrent(t *testing.T) {
	want := generateSnippets(t)
	if *writeNoHarm {
		if err := os.WriteFile(snippetsFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(snippetsFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("adapters/cli/%s is not what the documentation says: make no-harm writes it anew (%v)", snippetsFile, err)
	}
	if n := bytes.Count(want, []byte("\n\t\t\"")); n < 15 {
		t.Errorf("only %d places are found that build a router: the search is broken", n)
	}
}

// goSource is Go code of the documentation.
type goSource struct{ name, dir, text string }

// shownGo returns the Go code that users see: blocks of pages, code in doc comments, programs and Example functions.
func shownGo(t *testing.T) []goSource {
	t.Helper()
	var list []goSource
	block := regexp.MustCompile("(?ms)^ *```go[^\n]*\n(.*?)^ *```")
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		if d.IsDir() {
			if n := d.Name(); n == "bin" || n == "testdata" || len(n) > 2 && n[0] == '.' {
				return filepath.SkipDir
			}
			return nil
		}
		page, code := strings.HasSuffix(name, ".md") && name != "CHANGELOG.md", strings.HasSuffix(name, ".go")
		if !page && !code {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		switch {
		case page:
			for i, m := range block.FindAllSubmatch(text, -1) {
				list = append(list, goSource{fmt.Sprintf("%s, Go block %d", name, i+1), dir, string(m[1])})
			}
		case strings.HasSuffix(name, "_test.go") && !bytes.Contains(text, []byte("\nfunc Example")):
		case strings.HasPrefix(name, "examples/") || strings.HasSuffix(name, "_test.go"):
			list = append(list, goSource{name, dir, string(text)})
		default:
			file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
			if err != nil {
				return err
			}
			list = append(list, commentCode(name, dir, file)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// commentCode returns the code in the comments of a file.
func commentCode(name, dir string, file *ast.File) (list []goSource) {
	var p comment.Parser
	for _, group := range file.Comments {
		for _, b := range p.Parse(group.Text()).Content {
			if c, ok := b.(*comment.Code); ok {
				list = append(list, goSource{fmt.Sprintf("comment in %s", name), dir, c.Text})
			}
		}
	}
	return list
}

var imports = map[string]string{
	"json": "encoding/json", "strings": "strings", "context": "context", "fmt": "fmt",
	"llms": "github.com/tmc/langchaingo/llms", "router": "github.com/stepfall/stepfall/adapters/router", "full": "github.com/stepfall/stepfall/adapters/full",
	"middleware": "github.com/stepfall/stepfall/middleware", "policies": "github.com/stepfall/stepfall/policies",
	"sdk": "github.com/stepfall/stepfall/sdk", "step": "github.com/stepfall/stepfall/sdk/step",
}

// generateSnippets returns the text of the generated file.
func generateSnippets(t *testing.T) []byte {
	t.Helper()
	var body strings.Builder
	used := map[string]bool{"llms": true}
	for _, src := range shownGo(t) {
		text, wrapped := src.text, false
		if !regexp.MustCompile(`(full\.Open|router\.(Open|Wrap|New)|middleware\.New)\(`).MatchString(text) || strings.Contains(text, "{...,") {
			continue // without a router, or with an ellipsis in place of the models
		}
		if !strings.HasPrefix(strings.TrimSpace(text), "package ") && !strings.Contains(text, "\npackage ") {
			text, wrapped = "package p\nfunc Example() {\n"+strings.ReplaceAll(text, "{ ... }", "{}")+"\n}", true
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, src.name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", src.name, err)
			continue
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil || strings.HasSuffix(src.name, "_test.go") && !strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}
			name := src.name
			if strings.HasSuffix(name, "_test.go") && !wrapped {
				name += ", " + f.Name.Name
			}
			e := excerpt{set: set, text: text, file: file, within: f, used: used}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if code := e.made(call); code != "" {
					fmt.Fprintf(&body, "\t{\n\t\t%q, func(small, large llms.Model) any {\n%s\t\t},\n\t},\n", name, code)
				}
				return true
			})
		}
	}
	var out strings.Builder
	out.WriteString("// Code generated from the documentation by make no-harm. DO NOT EDIT.\n\npackage cli\n\nimport (\n")
	for _, std := range []bool{true, false} {
		for _, name := range sortedKeys(used) {
			path, known := imports[name]
			if !known {
				t.Errorf("code of the documentation needs %s, of which this test knows no import path", name)
			}
			if std == !strings.Contains(path, ".") {
				fmt.Fprintf(&out, "\t%q\n", path)
			}
		}
		out.WriteString("\n")
	}
	out.WriteString(")\n\nvar snippets = []snippet{\n" + body.String() + "}\n")
	formatted, err := format.Source([]byte(out.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return formatted
}

func sortedKeys(m map[string]bool) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(imports[a], imports[b]) })
	return list
}

// excerpt extracts code from a function of a file.
type excerpt struct {
	set    *token.FileSet
	text   string
	file   *ast.File
	within *ast.FuncDecl
	used   map[string]bool
}

// made returns the code that yields what a call builds a router from, or "" for any other call.
func (e *excerpt) made(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	var result string
	switch x.Name + "." + sel.Sel.Name {
	case "router.Open", "full.Open":
		policy := `"", ` + e.source(call.Args[1])
		if _, ok := call.Args[1].(*ast.BasicLit); !ok {
			policy = e.policy() + `, ""`
		}
		result = fmt.Sprintf("opening{%s, %s}", policy, e.source(call.Args[2]))
	case "router.Wrap":
		result = fmt.Sprintf("wrapping{%s, %s}", e.source(call.Args[1]), e.source(call.Args[2]))
	case "router.New", "middleware.New":
		result = e.source(call.Args[len(call.Args)-1])
	default:
		return ""
	}
	return e.needed(call) + "\t\t\treturn " + result + "\n"
}

// source returns the text of an expression without what a replay replaces, and records the packages that it uses.
func (e *excerpt) source(n ast.Node) string {
	type cut struct{ from, to int }
	var cuts []cut
	ast.Inspect(n, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && slices.Contains([]string{"LLM", "Interceptors", "Callbacks", "Providers"}, key.Name) {
				cuts = append(cuts, cut{e.at(kv.Value.Pos()), e.at(kv.Value.End())})
				return false
			}
		}
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && e.imports(x.Name) {
				e.used[x.Name] = true
			}
		}
		return true
	})
	var out strings.Builder
	from := e.at(n.Pos())
	for _, c := range cuts {
		out.WriteString(e.text[from:c.from] + "nil")
		from = c.to
	}
	return out.String() + e.text[from:e.at(n.End())]
}

func (e *excerpt) at(p token.Pos) int { return e.set.Position(p).Offset }

// imports reports whether a name is that of a package: one that the file imports or, in an excerpt without imports, a
// known one.
func (e *excerpt) imports(name string) bool {
	if len(e.file.Imports) == 0 {
		return imports[name] != ""
	}
	return slices.ContainsFunc(e.file.Imports, func(i *ast.ImportSpec) bool {
		path, err := strconv.Unquote(i.Path.Value)
		return err == nil && filepath.Base(path) == name
	})
}

// needed returns the functions of the same file that a call names, as variables.
func (e *excerpt) needed(call *ast.CallExpr) string {
	var out strings.Builder
	for _, decl := range e.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		names := false
		for _, arg := range call.Args {
			ast.Inspect(arg, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				names = names || ok && id.Name == f.Name.Name
				return true
			})
		}
		if names {
			_ = e.source(f) // for the packages that it uses
			fmt.Fprintf(&out, "%s := func%s\n", f.Name.Name, e.text[e.at(f.Type.Params.Pos()):e.at(f.End())])
		}
	}
	return out.String()
}

// policy returns the policy in a string of the function, as source text.
func (e *excerpt) policy() string {
	found := `""`
	ast.Inspect(e.within.Body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.Contains(lit.Value, "strategy \"") {
			found = strings.ReplaceAll(lit.Value, "%[1]q", `"http://localhost"`)
		}
		return true
	})
	return found
}

// noHarmInGo replays every router that the Go code of the documentation builds.
func noHarmInGo(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, s := range snippets {
		switch made := s.make(recordedModel{}, recordedModel{}).(type) {
		case opening:
			out.WriteString(openedRow(t, s.name, made))
		case wrapping:
			out.WriteString(wrappedRow(t, s.name, made))
		case middleware.Config:
			if len(made.Models) == 1 {
				continue // which has no choice
			}
			out.WriteString(configRow(t, s.name, made))
		default:
			t.Errorf("%s: cannot replay %T", s.name, made)
			continue
		}
	}
	return out.String()
}

// openedRow replays the policy that a program opens, with its options.
func openedRow(t *testing.T, name string, o opening) string {
	t.Helper()
	options := reflect.ValueOf(o.options)
	for _, field := range []string{"Verify", "Verifiers", "Checks", "Interceptors"} {
		if !options.FieldByName(field).IsZero() {
			t.Errorf("%s: a policy opened with %s is not what is recordedModel here", name, field)
		}
	}
	text, from := []byte(o.policy), ""
	if o.path != "" {
		file := filepath.Join("../..", filepath.Dir(name), o.path)
		read, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the page goes by what init writes
			from = ", with what policy init writes"
			if read, err = firstPolicy(t.Context(), func(string) string { return "" }, t.TempDir(), programChat, "auto"); err != nil {
				t.Fatal(err)
			}
		case err != nil:
			t.Fatal(err)
		}
		text = regexp.MustCompile(`file\("[^"]*"\)`).ReplaceAll(read, []byte(`"x"`))
	}
	load := o.options.Load
	load.WithoutProfile, load.WithoutSecrets = true, true
	p, err := policies.Parse(name+".hcl", text, load)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return ""
	}
	asReplayed(p)
	point, row := compare(t, p, ownOutcomes(p))
	point.judge(t, name)
	return fmt.Sprintf("| %s%s | %s | %s |\n", name, from, p.Strategy.Kind, row)
}

// wrappedRow replays a router.Wrap.
func wrappedRow(t *testing.T, name string, w wrapping) string {
	t.Helper()
	world := &snippetWorld{}
	o := w.options
	o.Models, o.Seed, o.Traces = map[string]llms.Model{}, 1, world.trace
	for model := range w.options.Models {
		o.Models[model] = recordedModel{world, model}
	}
	m, err := router.Wrap(t.Context(), w.worthUSD, o)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return ""
	}
	defer m.Close()
	world.table = ownOutcomes(m.Policy())
	return world.row(t, name, m.Policy().Strategy.Kind, m)
}

// configRow replays a middleware.New.
func configRow(t *testing.T, name string, c middleware.Config) string {
	t.Helper()
	world := &snippetWorld{}
	p := &policies.Policy{}
	for i := range c.Models {
		m := &c.Models[i]
		m.LLM = recordedModel{world, m.Model.Name}
		p.Models = append(p.Models, policies.Model{Name: m.Model.Name, Price: policies.Price{Input: m.Model.Price.Input, Output: m.Model.Price.Output}})
	}
	strategy := "cascade_route"
	if c.Step.Strategy != nil {
		strategy = fmt.Sprintf("%T", c.Step.Strategy)
	}
	c.Step.Traces = world.trace
	m, err := middleware.New(c)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return ""
	}
	world.table = ownOutcomes(p)
	return world.row(t, name, strategy, m)
}

// snippetWorld asks a router every query of a table.
type snippetWorld struct {
	table *outcome.Table
	last  *sdk.Trace
}

func (r *snippetWorld) trace(_ context.Context, t *sdk.Trace) { r.last = t }

func (r *snippetWorld) row(t *testing.T, name, strategy string, m llms.Model) string {
	t.Helper()
	cost, quality := make([]float64, len(r.table.Queries)), make([]float64, len(r.table.Queries))
	for q := range r.table.Queries {
		prompt := fmt.Sprint(q, strings.Repeat(" word", int(r.table.InputTokens[q][0])))
		answer, err := llms.GenerateFromSinglePrompt(t.Context(), m, prompt)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return ""
		}
		cost[q] = r.last.CostUSD
		quality[q] = r.table.Quality[q][slices.Index(r.table.Models, r.last.Chosen)]
		if right := answer == rightAnswer; right != (quality[q] == 1) {
			t.Fatalf("%s: the answer of %s to query %d is not the recorded one: %s", name, r.last.Chosen, q, answer)
		}
		for _, call := range r.last.Calls {
			recorded := r.table.Quality[q][slices.Index(r.table.Models, call.Model)] == 1
			if v := call.Verdict; v != nil && (v.Outcome == sdk.Passed && !recorded || v.Outcome == sdk.Failed && recorded) {
				t.Fatalf("%s: its judge does not tell the replay's answers apart: rightAnswer and wrongAnswer must suit it", name)
			}
		}
	}
	point, text := measure(r.table, cost, quality)
	point.judge(t, name)
	return fmt.Sprintf("| %s | %s | %s |\n", name, strategy, text)
}

// recordedModel is a model with recorded answers.
type recordedModel struct {
	world *snippetWorld
	name  string
}

func (r recordedModel) GenerateContent(_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	number, _, _ := strings.Cut(fmt.Sprint(messages[0].Parts[0]), " ")
	q, err := strconv.Atoi(number)
	if err != nil {
		return nil, fmt.Errorf("which query is this: %w", err)
	}
	table := r.world.table
	m := slices.Index(table.Models, r.name)
	text := wrongAnswer
	if table.Quality[q][m] == 1 {
		text = rightAnswer
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text, StopReason: "stop", GenerationInfo: map[string]any{
		"PromptTokens": int(table.InputTokens[q][m]), "CompletionTokens": int(table.OutputTokens[q][m]),
	}}}}, nil
}

func (r recordedModel) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, r, prompt, options...)
}
