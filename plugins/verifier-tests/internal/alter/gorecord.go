package alter

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// strictName matches functions that compare like ==.
var strictName = regexp.MustCompile(`^(DeepEqual|Equalf?|EqualValuesf?|Exactlyf?|Diff|)$`)

// record wraps the value that is compared with an expected value in a call that records it. It returns that
// call, or "" if the expected value is unknown or nothing is recorded.
func (g *goTest) record(expected, actual ast.Expr) (saw string) {
	if !g.canRecord(actual) || g.request.Way == End {
		return ""
	}
	if g.request.Way == Reach { // nothing is recorded
		return strings.Join(g.expectedNotes(expected), "")
	}
	name, site := g.site(actual)
	c := Comparison{Name: name, Test: g.testNames(g.function)[0], Lenient: g.isLenient, Values: g.expectedNotes(expected)}
	_, isItem := expected.(*ast.IndexExpr)
	c.Listed = isItem && g.isPerResult(expected)
	g.compared = append(g.compared, c)
	saw = fmt.Sprintf("%ssaw(%s, %s)", g.prefix, site, g.text(actual))
	g.replace(byLiteral, actual, saw)
	switch expected.(type) {
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr: // a row can lack the expected value
		if g.request.Way == Record {
			g.replace(byLiteral, expected, fmt.Sprintf("%ssaw(%s+\"=\", %s)", g.prefix, site, g.text(expected)))
		}
	}
	if len(c.Values) == 0 {
		return ""
	}
	return saw
}

// site returns the name of a comparison, and the expression for it: in a helper of several tests, it has the name of
// the one that runs.
func (g *goTest) site(actual ast.Expr) (name, expression string) {
	if g.isShared {
		name = fmt.Sprintf("%s:h%d@", g.path, g.offset(actual.Pos()))
		return name + g.testNames(g.function)[0], fmt.Sprintf("%q+%stest(%s.Name())", name, g.prefix, g.tester)
	}
	name = fmt.Sprintf("%s:%d", g.path, len(g.compared))
	return name, strconv.Quote(name)
}

// canRecord reports whether an expression can be wrapped in a call without changing its type.
func (g *goTest) canRecord(actual ast.Expr) bool {
	switch a := actual.(type) {
	case *ast.BasicLit, *ast.FuncLit:
		return false
	case *ast.Ident:
		return g.request.Record != "" && !slices.Contains(constants, a.Name)
	}
	return g.request.Record != ""
}

// expectedNotes returns the notes of expected values, or nil unless they are compared as by ==.
func (g *goTest) expectedNotes(expected ast.Expr) []string {
	call, isCall := expected.(*ast.CallExpr)
	if !strictName.MatchString(g.comparer) || isCall && isSliceOf(call) { // a text that is converted is compared as its bytes
		return nil
	}
	return literalNotes(g.values(expected), g.comparer == "")
}

// literalNotes returns the notes of literals, or nil if any value is not one. Structs only count if an operator
// compares them: a method can treat different ones as equal.
func literalNotes(values []ast.Expr, isOperator bool) []string {
	var all []string
	for _, value := range values {
		text, ok := plainGo(value)
		if composite, isComposite := ast.Unparen(value).(*ast.CompositeLit); !ok || isComposite && isStruct(composite) && !isOperator {
			return nil
		}
		all = append(all, "="+text)
	}
	return all
}

// plainGo formats a literal like the function plain of goRecords.
func plainGo(e ast.Expr) (string, bool) {
	switch v := ast.Unparen(e).(type) {
	case *ast.Ident:
		return v.Name, isLiteral(v)
	case *ast.UnaryExpr:
		text, ok := plainGo(v.X)
		_, isLiteral := v.X.(*ast.BasicLit)
		return "-" + text, ok && isLiteral && v.Op == token.SUB && text != "0"
	case *ast.BasicLit:
		return plainLiteral(v)
	case *ast.CompositeLit:
		return plainComposite(v)
	}
	return "", false
}

func plainLiteral(v *ast.BasicLit) (string, bool) {
	switch v.Kind {
	case token.STRING:
		text, err := strconv.Unquote(v.Value)
		return strconv.Quote(text), err == nil
	case token.CHAR:
		r, _, _, err := strconv.UnquoteChar(strings.Trim(v.Value, "'"), '\'')
		return strconv.Itoa(int(r)), err == nil
	case token.INT:
		n, err := strconv.ParseInt(v.Value, 0, 64)
		return strconv.FormatInt(n, 10), err == nil
	case token.FLOAT:
		f, err := strconv.ParseFloat(v.Value, 64)
		return strconv.FormatFloat(f, 'f', -1, 64), err == nil
	}
	return "", false
}

// isStruct reports whether a composite literal can be a struct: its type has a name.
func isStruct(v *ast.CompositeLit) bool {
	switch v.Type.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return true
	}
	return false
}

// plainComposite is plainGo for a slice, array or map of an unnamed type, or a struct literal with all fields
// in order and without names.
func plainComposite(v *ast.CompositeLit) (string, bool) {
	_, isArray := v.Type.(*ast.ArrayType)
	_, isMap := v.Type.(*ast.MapType)
	isPlain := isArray || isMap || isStruct(v) && len(v.Elts) > 0
	var parts []string
	for _, element := range v.Elts {
		text, ok := plainElement(element, isMap)
		parts, isPlain = append(parts, text), isPlain && ok
	}
	if isMap {
		slices.Sort(parts)
	}
	return "[" + strings.Join(parts, ",") + "]", isPlain
}

func plainElement(element ast.Expr, isMap bool) (string, bool) {
	pair, isPair := element.(*ast.KeyValueExpr)
	if !isPair {
		return plainGo(element)
	}
	key, isKey := plainGo(pair.Key)
	value, isValue := plainGo(pair.Value)
	return key + ":" + value, isKey && isValue && isMap
}

// withRecords adds the functions that record comparisons to a source.
func (g *goTest) withRecords(source string) string {
	if g.request.Record == "" || !strings.Contains(source, g.prefix) {
		return source
	}
	end := g.offset(g.file.Name.End())
	file := strings.Repeat("../", strings.Count(g.path, "/")) + g.request.Record
	names := strings.NewReplacer("@record", strconv.Quote(file), "@", g.prefix)
	imports, functions, _ := strings.Cut(names.Replace(goRecords), "\n")
	return source[:end] + imports + source[end:] + functions
}

// goRecords is the recording code. Its first line has the imports, which are put after the package clause on
// the same line, so that line numbers do not change; the functions are appended to the file.
const goRecords = `; import (@fmt "fmt"; @os "os"; @reflect "reflect"; @sort "sort"; @strconv "strconv"; @strings "strings")

var @file, _ = @os.OpenFile(@record, @os.O_CREATE|@os.O_APPEND|@os.O_WRONLY, 0o666)

func @saw[T any](site string, v T) T {
	isPlain := true
	text := @plain(@reflect.ValueOf(&v).Elem(), &isPlain, 0)
	const limit = 1 << 16
	mark := "="
	if !isPlain { mark = "?" }
	if len(text) > limit { text = text[:limit] }
	@fmt.Fprintf(@file, "%s\t%s%s\n", site, mark, text)
	return v
}

func @test(name string) string {
	name, _, _ = @strings.Cut(name, "/")
	return name
}

func @plain(v @reflect.Value, isPlain *bool, depth int) string {
	const deep = 50
	var parts []string
	switch k := v.Kind(); {
	case k == @reflect.Bool: return @strconv.FormatBool(v.Bool())
	case k == @reflect.String: return @strconv.Quote(v.String())
	case v.CanInt(): return @strconv.FormatInt(v.Int(), 10)
	case v.CanUint(): return @strconv.FormatUint(v.Uint(), 10)
	case v.CanFloat(): return @strconv.FormatFloat(v.Float(), 'f', -1, v.Type().Bits())
	case k == @reflect.Interface && !v.IsNil(): return @plain(v.Elem(), isPlain, depth+1)
	case k == @reflect.Struct && depth < deep:
		for i := 0; i < v.NumField(); i++ { parts = append(parts, @plain(v.Field(i), isPlain, depth+1)) }
	case (k == @reflect.Slice || k == @reflect.Array) && depth < deep:
		for i := 0; i < v.Len(); i++ { parts = append(parts, @plain(v.Index(i), isPlain, depth+1)) }
	case k == @reflect.Map && depth < deep:
		for _, key := range v.MapKeys() { parts = append(parts, @plain(key, isPlain, depth+1)+":"+@plain(v.MapIndex(key), isPlain, depth+1)) }
		@sort.Strings(parts)
	default:
		*isPlain = false
	}
	return "[" + @strings.Join(parts, ",") + "]"
}
`
