package alter

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// standard are the folders of the standard library.
var standard = strings.Fields("archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt go hash html image index io iter log maps math " +
	"mime net os path plugin reflect regexp runtime slices sort strconv strings structs sync syscall testing text time unicode unique unsafe weak")

// computing are those of which nothing that the code does changes what they return.
var computing = strings.Fields("bytes cmp container crypto encoding errors fmt hash html iter maps math path reflect regexp slices sort strconv strings testing text time unicode")

// isCode reports whether a package that the tests import is none of the standard library's.
func (p *goPackage) isCode(name string) bool {
	first, _, _ := strings.Cut(p.imports[name], "/")
	return !slices.Contains(standard, first)
}

// isOfCode reports whether a node has the code under test do something, or takes a value of it, of
// which its types are none.
func (a *goAsker) isOfCode(node ast.Node) bool {
	types := a.typesIn(node)
	for name := range goNames(node, a.text) {
		if !types[name] && (a.isNameOfCode(baseOf(name)) || baseOf(name) != name && a.isOfTypeOfCode(baseOf(name))) {
			return true
		}
	}
	return false
}

// isOfTypeOfCode reports whether a local name is declared with a type that the tests do not have, so
// that its methods are the code's.
func (a *goAsker) isOfTypeOfCode(name string) bool {
	for _, item := range slices.Backward(a.items) {
		if slices.Contains(item.gives, name) {
			return item.isOfType
		}
	}
	return false
}

// typesIn are the names of the types in a node.
func (a *goAsker) typesIn(node ast.Node) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(node, func(n ast.Node) bool {
		var kind ast.Expr
		switch v := n.(type) {
		case *ast.CompositeLit:
			kind = v.Type
		case *ast.ValueSpec:
			kind = v.Type
		case *ast.TypeSpec:
			kind = v.Type
		case *ast.FuncType:
			kind = v
		case *ast.CallExpr:
			if name := calledName(v); (name == "make" || name == "new") && len(v.Args) > 0 {
				kind = v.Args[0]
			}
		}
		if kind != nil {
			maps.Copy(found, goNames(kind, a.text))
		}
		return true
	})
	return found
}

func (a *goAsker) isNameOfCode(name string) bool {
	if a.testers[name] {
		return false
	}
	for _, item := range slices.Backward(a.items) {
		if slices.Contains(item.gives, name) {
			return item.isOfCode
		}
	}
	d := a.declarations[name]
	switch {
	case a.locals[name], types.Universe.Lookup(name) != nil && d == nil:
		return false
	case a.imports[name] != "":
		return a.isCode(name)
	case d == nil:
		return true
	case !d.isKnown:
		d.isKnown = true
		d.isOfCode = slices.ContainsFunc(slices.Collect(maps.Keys(d.needs)), func(n string) bool { return !d.types[n] && a.isNameOfCode(baseOf(n)) })
	}
	return d.isOfCode
}

// countCalls counts the calls in a node but those that only make another value of one.
func (a *goAsker) countCalls(node ast.Node) (count int) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.CallExpr:
			first, _, _ := strings.Cut(a.imports[baseOf(a.text(v.Fun))], "/")
			if name := calledName(v); !makerName.MatchString(name) && name != "len" && !slices.Contains(computing, first) {
				count++
			}
		case *ast.FuncLit:
			count += 2 // which counts for more than one call
		}
		return true
	})
	return count
}

// goText is a program that is put together from its end.
type goText struct {
	lines       []string
	needs       map[string]bool
	depth, open int
	calls       int
	bad         bool
}

// program is that with a statement at its end, which needs what a node does, and the items before it
// of which it is in need; what is kept, too, unless it isBare: that is to do without the code.
func (a *goAsker) program(last string, node ast.Node, isBare bool) (text string, ok bool) {
	g := &goText{lines: []string{last}, needs: goNames(node, a.text), calls: a.countCalls(node)}
	if isBare && a.isOfCode(node) {
		return "", false
	}
	for _, item := range slices.Backward(a.items) {
		a.take(g, item, isBare)
	}
	a.calls = g.calls
	declarations, imports, ok := a.around(g, isBare)
	if !ok || g.bad || isBare && g.calls > 0 && a.usesTypesOfCode(g, node) {
		return "", false
	}
	slices.Reverse(g.lines)
	body := strings.Join(g.lines, "\n") + strings.Repeat("\n}", g.open)
	parts := append([]string{"package " + a.name + "\n", strings.Join(imports, "\n") + "\n"}, declarations...)
	return strings.Join(append(parts, "func question("+testerName(a.test)+" *testing.T) {\n"+body+"\n}\n"), "\n"), true
}

// take puts an item before a program, where it belongs to it.
func (a *goAsker) take(g *goText, item goItem, isBare bool) {
	isNeeded := slices.ContainsFunc(item.gives, g.isNeeded)
	switch {
	case item.level < 0:
		g.lines, g.depth = append(g.lines, item.text), g.depth+1
		return
	case item.level > 0 && g.depth > 0:
		g.depth--
		if g.lines[len(g.lines)-1] == "}" { // around nothing
			g.lines = g.lines[:len(g.lines)-1]
			return
		}
		g.lines = append(g.lines, item.text)
		return
	case item.level > 0:
		g.lines, g.open = append(g.lines, item.text), g.open+1
		return
	case item.row != nil && isNeeded:
		text, more, ok := a.rowText(item.row, g.needs)
		g.bad = g.bad || !ok
		g.give(item.gives)
		g.lines = append(g.lines, text)
		maps.Copy(g.needs, more)
		return
	case item.row != nil:
		return
	}
	touches := item.isKept && slices.ContainsFunc(slices.Collect(maps.Keys(item.needs)), func(n string) bool {
		return a.locals[baseOf(n)] && !a.testers[baseOf(n)] && g.isNeeded(baseOf(n))
	})
	if isBare && item.isOfCode && (isNeeded || touches) {
		g.bad = true
	}
	if isNeeded || touches || item.isKept && !isBare {
		g.give(item.gives)
		g.lines, g.calls = append(g.lines, item.text), g.calls+item.calls
		maps.Copy(g.needs, item.needs)
	}
}

func (g *goText) isNeeded(name string) bool {
	for need := range g.needs {
		if need == name || baseOf(need) == name || strings.HasPrefix(need, name+".") {
			return true
		}
	}
	return false
}

// give takes names as given.
func (g *goText) give(names []string) {
	maps.DeleteFunc(g.needs, func(need string, _ bool) bool {
		return slices.ContainsFunc(names, func(name string) bool { return baseOf(need) == name || strings.HasPrefix(need, name+".") })
	})
}

// around are the declarations and imports that a program needs; not ok where it needs something that
// only a run of the tests has.
func (a *goAsker) around(g *goText, isBare bool) (declarations, imports []string, ok bool) {
	done, ok := map[string]bool{}, true
	imported := map[string]bool{"testing": true}
	work := slices.Sorted(maps.Keys(g.needs))
	isBody := len(work)
	for i := 0; i < len(work); i++ {
		name := baseOf(work[i])
		isOwn := i < isBody && a.locals[name] && !a.testers[name]
		d := a.declarations[name]
		switch {
		case done[name], i < isBody && a.testers[name]:
		case isOwn:
			ok = false
		case a.imports[name] != "":
			first, _, _ := strings.Cut(a.imports[name], "/")
			imported[name], ok = true, ok && (!isBare || slices.Contains(computing, first))
		case d != nil:
			for _, part := range append([]*goDeclaration{d}, a.methods[name]...) {
				if !slices.Contains(declarations, part.text) {
					declarations = append(declarations, part.text)
					work = append(work, slices.Sorted(maps.Keys(part.needs))...)
				}
			}
			ok = ok && !d.isTable
		}
		done[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(imported)) {
		imports = append(imports, "import "+name+" "+strconv.Quote(a.imports[name]))
	}
	return declarations, imports, ok
}

// usesTypesOfCode reports whether a program has values of types of the code, whose methods others call.
func (a *goAsker) usesTypesOfCode(g *goText, node ast.Node) bool {
	for name := range g.needs {
		if name := baseOf(name); a.declarations[name] == nil && types.Universe.Lookup(name) == nil && (a.imports[name] == "" || a.isCode(name)) && !a.testers[name] {
			return true
		}
	}
	return false
}
