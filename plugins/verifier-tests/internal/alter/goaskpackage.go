package alter

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// goPackage is what the files of tests of one package declare.
type goPackage struct {
	name    string
	tokens  *token.FileSet
	sources map[string]string
	tests   []*ast.FuncDecl
	// imports are the paths of packages by their names, declarations what is declared beside the
	// tests, functions, types and values what of it is so, methods are those of types, and receivers
	// the methods that have a name.
	imports      map[string]string
	declarations map[string]*goDeclaration
	functions    map[string]*ast.FuncDecl
	types        map[string]ast.Expr
	values       map[string]ast.Expr
	methods      map[string][]*goDeclaration
	receivers    map[string][]*ast.FuncDecl
	// isPrepared says that something is done before the tests, or that names are not known.
	isPrepared bool
}

// goDeclaration is one of a package, with the names that it needs, of which some are types.
type goDeclaration struct {
	text              string
	needs, types      map[string]bool
	isTable           bool
	isKnown, isOfCode bool
}

// exporting matches files that show tests beside a package what is its own.
var exporting = regexp.MustCompile(`(^|/)export\w*_test\.go$`)

// ofTests matches tests that go by where they lie.
var ofTests = regexp.MustCompile(`_test\.go\b|runtime\.Caller\b`)

// askGo adds to the sources the questions of their tests.
func askGo(files, altered []Source) {
	packages := map[string]*goPackage{}
	for _, file := range files {
		if Language(file.Path) != "go" || exporting.MatchString(file.Path) {
			continue
		}
		tokens := token.NewFileSet()
		parsed, err := parser.ParseFile(tokens, file.Path, file.Text, parser.PackageClauseOnly)
		if err != nil {
			continue
		}
		name := path.Dir(file.Path) + " " + parsed.Name.Name
		if packages[name] == nil {
			packages[name] = newGoPackage(parsed.Name.Name)
		}
		packages[name].add(file)
	}
	for _, p := range packages {
		if p.isPrepared {
			continue
		}
		for _, test := range p.tests {
			at := slices.IndexFunc(altered, func(s Source) bool { return s.Path == p.fileOf(test) })
			if at < 0 || !slices.Contains(altered[at].Tests, test.Name.Name) {
				continue
			}
			questions, isWhole := p.ask(test)
			altered[at].Questions = append(altered[at].Questions, questions...)
			if isWhole {
				altered[at].Answerable = append(altered[at].Answerable, test.Name.Name)
			}
		}
	}
}

func newGoPackage(name string) *goPackage {
	return &goPackage{
		name: name, tokens: token.NewFileSet(), sources: map[string]string{}, imports: map[string]string{"testing": "testing"}, declarations: map[string]*goDeclaration{},
		functions: map[string]*ast.FuncDecl{}, types: map[string]ast.Expr{}, values: map[string]ast.Expr{}, methods: map[string][]*goDeclaration{}, receivers: map[string][]*ast.FuncDecl{},
	}
}

func (p *goPackage) fileOf(node ast.Node) string {
	return p.tokens.PositionFor(node.Pos(), false).Filename
}

func (p *goPackage) text(node ast.Node) string {
	from, to := p.tokens.PositionFor(node.Pos(), false), p.tokens.PositionFor(node.End(), false)
	return p.sources[from.Filename][from.Offset:to.Offset]
}

func (p *goPackage) add(file Source) {
	p.sources[file.Path], p.isPrepared = file.Text, p.isPrepared || ofTests.MatchString(file.Text)
	parsed, err := parser.ParseFile(p.tokens, file.Path, file.Text, parser.SkipObjectResolution)
	if err != nil {
		p.isPrepared = true
		return
	}
	selected := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			selected[p.text(s.X)] = true
		}
		return true
	})
	for _, spec := range parsed.Imports {
		p.imported(spec, selected)
	}
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			p.function(d)
		case *ast.GenDecl:
			p.declared(d)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.AssignStmt); ok && s.Tok != token.DEFINE {
			for _, target := range s.Lhs {
				delete(p.values, rootOf(target))
			}
		}
		return true
	})
}

// versionOf matches what the path of a package has and its name has not.
var versionOf = regexp.MustCompile(`^go-|[.-]v\d+$|\.go$|-go$`)

func (p *goPackage) imported(spec *ast.ImportSpec, selected map[string]bool) {
	full := strings.Trim(spec.Path.Value, "\"`")
	names := []string{path.Base(full), versionOf.ReplaceAllString(path.Base(full), ""), path.Base(path.Dir(full))}
	if spec.Name != nil {
		names = []string{spec.Name.Name}
	}
	if at := slices.IndexFunc(names, func(n string) bool { return selected[n] }); at >= 0 {
		other := p.imports[names[at]]
		p.isPrepared = p.isPrepared || other != "" && other != full
		p.imports[names[at]] = full
	} else {
		p.isPrepared = true // what it is called nobody knows, or it does something by being there
	}
}

func (p *goPackage) function(f *ast.FuncDecl) {
	if f.Body == nil || f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "TestMain") {
		p.isPrepared = true
		return
	}
	if f.Recv == nil && isTest(f) {
		p.tests = append(p.tests, f)
		return
	}
	d := p.declaration("", f)
	if f.Recv == nil {
		p.declarations[f.Name.Name], p.functions[f.Name.Name] = d, f
		return
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	name := baseOf(p.text(kind))
	p.methods[name], p.receivers[f.Name.Name] = append(p.methods[name], d), append(p.receivers[f.Name.Name], f)
}

func (p *goPackage) declaration(before string, node ast.Node) *goDeclaration {
	d := &goDeclaration{text: before + p.text(node), needs: goNames(node, p.text)}
	own := map[string]bool{}
	if f, ok := node.(*ast.FuncDecl); ok {
		own = assigned(f)
		delete(d.needs, f.Name.Name)
	}
	maps.DeleteFunc(d.needs, func(n string, _ bool) bool { return own[baseOf(n)] })
	d.types = (&goAsker{goPackage: p}).typesIn(node)
	return d
}

func (p *goPackage) declared(d *ast.GenDecl) {
	if d.Tok == token.IMPORT {
		return
	}
	whole := p.declaration("", d)
	for _, spec := range d.Specs {
		one := whole
		if d.Tok != token.CONST {
			one = p.declaration(d.Tok.String()+" ", spec)
		}
		for _, name := range given(spec) {
			p.declarations[name] = one
		}
		switch s := spec.(type) {
		case *ast.TypeSpec:
			p.types[s.Name.Name] = s.Type
		case *ast.ValueSpec:
			if len(s.Names) == 1 && len(s.Values) == 1 {
				_, isPlain := plainGo(s.Values[0])
				if one.isTable = isTable(s.Values[0]); isPlain || one.isTable {
					p.values[s.Names[0].Name] = s.Values[0]
				}
			}
		}
	}
}

// GoQuestions is the file that has the questions of one package answered, whose numbers it reads, and
// which writes notes of what it finds, a line each.
func GoQuestions(questions []Question) (string, error) {
	var imports, declarations, bodies []string
	name := ""
	for i, q := range questions {
		tokens := token.NewFileSet()
		file, err := parser.ParseFile(tokens, "question.go", q.Program, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		name = file.Name.Name
		for _, d := range file.Decls {
			text := q.Program[tokens.Position(d.Pos()).Offset:tokens.Position(d.End()).Offset]
			switch g, isGeneral := d.(*ast.GenDecl); {
			case isGeneral && g.Tok == token.IMPORT:
				imports = append(imports, text)
			case strings.HasPrefix(text, "func question("):
				bodies = append(bodies, strings.Replace(text, "question", fmt.Sprint("_question", i), 1))
			default:
				declarations = append(declarations, text)
			}
		}
	}
	var list strings.Builder
	for i := range questions {
		fmt.Fprintf(&list, "_question%d, ", i)
	}
	slices.Sort(imports)
	slices.Sort(declarations)
	ownImports, own, _ := strings.Cut(strings.ReplaceAll(goAnswers+goPlain, "@", "_"), "\n")
	parts := slices.Concat([]string{"package " + name + ownImports}, slices.Compact(imports), slices.Compact(declarations), bodies, []string{strings.Replace(own, "QUESTIONS", list.String(), 1)})
	return strings.Join(parts, "\n\n"), nil
}

// goAnswers begins with imports, which follow the package clause on its line.
const goAnswers = `; import (@bufio "bufio"; @fmt "fmt"; @os "os"; @reflect "reflect"; @runtime "runtime"; @sort "sort"; @strconv "strconv"; @strings "strings"; @testing "testing")

var @to = @os.NewFile(3, "answers")

func @answer[T any](v T) { @write("=", v) }

func @answerOwn[T any](v T) { @write("~", v) }

func @write[T any](mark string, v T) {
	isPlain := true
	text := @plain(@reflect.ValueOf(&v).Elem(), &isPlain, 0)
	const limit = 1 << 16
	if !isPlain { mark = "?" }
	if len(text) > limit { text = text[:limit] }
	@fmt.Fprintf(@to, "%s%s\n", mark, text)
	@runtime.Goexit()
}

func TestQuestions(t *@testing.T) {
	numbers := @bufio.NewScanner(@os.Stdin)
	for numbers.Scan() {
		n, _ := @strconv.Atoi(numbers.Text())
		done := make(chan bool)
		go func() {
			defer close(done)
			defer func() {
				if r := recover(); r != nil { @fmt.Fprintf(@to, "raised %q\n", @fmt.Sprint(r)) }
			}()
			[]func(*@testing.T){QUESTIONS}[n](t)
			@fmt.Fprintln(@to, "raised nothing, and ended")
		}()
		<-done
	}
}
`
