package policies

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strings"
	"sync"
)

// The files whose comments become the reference of the language.
var (
	//go:embed policy.go
	policySource string
	//go:embed model.go
	modelSource string
)

// comments returns the doc comments of the language's files, by "Type" and "Type.Field".
var comments = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, source := range []string{policySource, modelSource} {
		f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
		if err != nil {
			panic("policies: embedded source: " + err.Error())
		}
		for _, d := range f.Decls {
			g, isGen := d.(*ast.GenDecl)
			if !isGen || g.Tok != token.TYPE {
				continue
			}
			t := g.Specs[0].(*ast.TypeSpec)
			found[t.Name.Name] = oneLine(g.Doc)
			if s, ok := t.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					found[t.Name.Name+"."+field.Names[0].Name] = oneLine(field.Doc)
				}
			}
		}
	}
	return found
})

func oneLine(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}

func (b *block) doc() string {
	if b.free {
		return "The arguments of the plugin, which `stepfall plugin ls NAME` lists."
	}
	return comments()[b.typ.Name()]
}

// WriteReference writes the reference of the language in Markdown: each block with its arguments, their
// types, defaults and limits, and a working example.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	root := language()
	b.WriteString("### At the top of a file\n\n")
	root.writeArguments(&b)
	for _, sub := range root.blocks {
		sub.write(&b, nil)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (b *block) write(out *strings.Builder, outer []string) {
	path := append(slices.Clip(outer), b.name)
	label := ""
	if b.label >= 0 {
		label = ` "` + strings.ToUpper(b.typ.Field(b.label).Name) + `"`
	}
	fmt.Fprintf(out, "%s %s\n\n", strings.Repeat("#", 2+len(path)), strings.Join(path, " "))
	how := "At most once"
	switch {
	case b.many:
		how = "Any number, with different names"
	case b.required:
		how = "Exactly once"
	}
	fmt.Fprintf(out, "`%s%s { ... }`. %s.\n\n%s\n\n", b.name, label, how, b.doc())
	if len(b.labels) > 0 {
		fmt.Fprintf(out, "The label is one of `%s`.\n\n", strings.Join(b.labels, "`, `"))
	}
	b.writeArguments(out)
	if example, ok := examples()[strings.Join(path, " ")]; ok {
		fmt.Fprintf(out, "```hcl\n%s\n```\n\n", strings.TrimSpace(example))
	}
	for _, sub := range b.blocks {
		if isDescribedElsewhere(path, sub.name) {
			continue
		}
		sub.write(out, path)
	}
}

func isDescribedElsewhere(path []string, name string) bool {
	return path[0] == "verifier" || path[0] == "match" || path[0] == "catalog" && name == "price"
}

func (b *block) writeArguments(out *strings.Builder) {
	if len(b.args) == 0 {
		return
	}
	out.WriteString("| argument | type | default | description |\n| --- | --- | --- | --- |\n")
	for i := range b.args {
		a := &b.args[i]
		fallback := a.fallback
		switch {
		case a.required:
			fallback = "**required**"
		case fallback == "":
			fallback = "–"
		default:
			fallback = "`" + fallback + "`"
		}
		takes := a.kind.String()
		if len(a.oneOf) > 0 {
			takes += ": " + strings.Join(a.oneOf, ", ")
		}
		takes += a.limits()
		text := comments()[b.typ.Name()+"."+a.goName]
		if len(a.kinds) > 0 {
			text += " For " + strings.Join(a.kinds, ", ") + "."
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", a.name, takes, fallback, strings.ReplaceAll(text, "|", `\|`))
	}
	out.WriteString("\n")
}

//go:embed examples.hcl
var exampleSource string

// examples returns the parts of examples.hcl, by block. Each begins with a line "#: block".
var examples = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, part := range strings.Split("\n"+exampleSource, "\n#: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		found[strings.TrimSpace(name)] = strings.TrimSpace(text) + "\n"
	}
	return found
})
