package alter

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"strings"
)

// goNames are the names that a node takes from around it; of what is selected with the selector:
// x, c.in, cases[i].in.
func goNames(node ast.Node, text func(ast.Node) string) map[string]bool {
	s := &goNameSet{text: text, node: node, found: map[string]bool{}, own: map[string]bool{}}
	ast.Inspect(node, s.visit)
	maps.DeleteFunc(s.found, func(name string, _ bool) bool { return s.own[baseOf(name)] })
	return s.found
}

// goNameSet gathers names.
type goNameSet struct {
	text       func(ast.Node) string
	node       ast.Node
	found, own map[string]bool
}

func (s *goNameSet) visit(n ast.Node) bool {
	switch v := n.(type) {
	case *ast.SelectorExpr:
		s.selected(v)
		return false
	case *ast.CompositeLit:
		s.composite(v)
		return false
	case *ast.AssignStmt:
		if v.Tok != token.DEFINE {
			return true
		}
		if n != s.node {
			s.gives(v)
		}
		for _, right := range v.Rhs {
			ast.Inspect(right, s.visit)
		}
		return false
	case *ast.FuncLit:
		inner, own := goNames(v.Body, s.text), assigned(v)
		maps.DeleteFunc(inner, func(name string, _ bool) bool { return own[baseOf(name)] })
		maps.Copy(s.found, inner)
		ast.Inspect(v.Type, s.visit)
		return false
	case *ast.Field:
		ast.Inspect(v.Type, s.visit)
		return false
	case *ast.BranchStmt:
		return false
	case *ast.RangeStmt, *ast.ValueSpec, *ast.TypeSpec:
		s.gives(n)
	case *ast.Ident:
		s.found[v.Name] = true
	}
	return true
}

func (s *goNameSet) gives(n ast.Node) {
	for _, name := range given(n) {
		s.own[name] = true
	}
}

func (s *goNameSet) selected(v *ast.SelectorExpr) {
	if _, isName := v.X.(*ast.Ident); isName {
		s.found[s.text(v)] = true
		return
	}
	if index, isIndex := v.X.(*ast.IndexExpr); isIndex {
		if _, isName := index.X.(*ast.Ident); isName {
			s.found[s.text(v)] = true
			ast.Inspect(index.Index, s.visit)
			return
		}
	}
	ast.Inspect(v.X, s.visit)
}

func (s *goNameSet) composite(v *ast.CompositeLit) {
	if v.Type != nil {
		ast.Inspect(v.Type, s.visit)
	}
	_, isMap := v.Type.(*ast.MapType)
	for _, e := range v.Elts {
		pair, isPair := e.(*ast.KeyValueExpr)
		if isPair {
			if _, isName := pair.Key.(*ast.Ident); !isName || isMap {
				ast.Inspect(pair.Key, s.visit)
			}
			e = pair.Value
		}
		ast.Inspect(e, s.visit)
	}
}

// baseOf is what is selected from: c of c.in, and cases of cases[i].in.
func baseOf(name string) string {
	if end := strings.IndexAny(name, ".["); end >= 0 {
		return name[:end]
	}
	return name
}

// beforeDot is the row of what is selected: cases[i] of cases[i].in.
func beforeDot(name string) string { return name[:len(name)-len(path.Ext(name))] }

// given are the names to which one statement gives a value for the first time.
func given(n ast.Node) (names []string) {
	var targets []ast.Expr
	switch v := n.(type) {
	case *ast.AssignStmt:
		if v.Tok == token.DEFINE {
			targets = v.Lhs
		}
	case *ast.RangeStmt:
		if v.Tok == token.DEFINE {
			targets = []ast.Expr{v.Key, v.Value}
		}
	case *ast.ValueSpec:
		for _, name := range v.Names {
			targets = append(targets, name)
		}
	case *ast.TypeSpec:
		targets = []ast.Expr{v.Name}
	case *ast.Field:
		for _, name := range v.Names {
			targets = append(targets, name)
		}
	}
	for _, target := range targets {
		if name, ok := target.(*ast.Ident); ok {
			names = append(names, name.Name)
		}
	}
	return names
}

// assigned are the names that a function has of its own.
func assigned(function ast.Node) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(function, func(n ast.Node) bool {
		if _, isStruct := n.(*ast.StructType); isStruct {
			return false
		}
		if n != nil {
			for _, name := range given(n) {
				found[name] = true
			}
		}
		return true
	})
	return found
}

// stored are the names to which a statement gives a value.
func stored(statement ast.Node) (names []string) {
	ast.Inspect(statement, func(n ast.Node) bool {
		var targets []ast.Expr
		switch v := n.(type) {
		case *ast.AssignStmt:
			targets = v.Lhs
		case *ast.IncDecStmt:
			targets = []ast.Expr{v.X}
		case *ast.ValueSpec, *ast.TypeSpec, *ast.RangeStmt:
			names = append(names, given(n)...)
		}
		for _, target := range targets {
			if name := rootOf(target); name != "" {
				names = append(names, name)
			}
		}
		return true
	})
	return names
}

// rootOf is the name of what is changed where an expression is given a value.
func rootOf(e ast.Expr) string {
	switch v := e.(type) {
	case *ast.Ident:
		return v.Name
	case *ast.SelectorExpr:
		return rootOf(v.X)
	case *ast.IndexExpr:
		return rootOf(v.X)
	case *ast.StarExpr:
		return rootOf(v.X)
	case *ast.ParenExpr:
		return rootOf(v.X)
	}
	return ""
}

// holds reports whether something within a node fits.
func holds(node ast.Node, fits func(ast.Node) bool) (found bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		found = found || n != nil && fits(n)
		return !found
	})
	return found
}
