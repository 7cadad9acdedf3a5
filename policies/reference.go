package policies

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// The files whose comments are the reference of the language.
var (
	//go:embed policy.go
	policySource string
	//go:embed model.go
	modelSource string
)

// comments are the texts of the language's files, by type and by "Type.Field".
var comments = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, source := range []string{policySource, modelSource} {
		collectComments(found, source)
	}
	return found
})

func collectComments(found map[string]string, source string) {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		panic("policies: embedded source: " + err.Error())
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			found[t.Name.Name] = oneLine(g.Doc)
			s, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range s.Fields.List {
				for _, n := range field.Names {
					found[t.Name.Name+"."+n.Name] = oneLine(field.Doc)
				}
			}
		}
	}
}

func oneLine(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}

// doc returns what the reference says of a block.
func (b *block) doc() string {
	if b.free {
		return "What the plugin needs to know, in its own words: `stepfall plugin ls NAME` lists them."
	}
	return comments()[b.typ.Name()]
}

// doc returns what the reference says of an argument of b.
func (a *argument) doc(b *block) string { return comments()[b.typ.Name()+"."+a.goName] }

// WriteReference writes the reference of the language in Markdown: each block with
// its arguments, their types, defaults and limits, and an example that loads.
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
		how = "Any number, each with a name of its own"
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
		if repeated(path, sub.name) {
			continue
		}
		sub.write(out, path)
	}
}

// repeated reports whether a nested block is described elsewhere.
func repeated(path []string, name string) bool {
	switch path[0] {
	case "catalog":
		return name == "price"
	case "verifier":
		return true
	case "match":
		return true
	}
	return false
}

func (b *block) writeArguments(out *strings.Builder) {
	if len(b.args) == 0 {
		return
	}
	out.WriteString("| argument | takes | default | what it is |\n| --- | --- | --- | --- |\n")
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
		text := a.doc(b)
		if len(a.kinds) > 0 {
			text += " For " + strings.Join(a.kinds, ", ") + "."
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", a.name, takes, fallback, strings.ReplaceAll(text, "|", `\|`))
	}
	out.WriteString("\n")
}

// WriteSchema writes a JSON Schema (draft 2020-12) of the language in HCL's JSON
// form, for editors and other tools.
func WriteSchema(w io.Writer) error {
	s := language().schema("")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "stepfall policy"
	properties, ok := s["properties"].(map[string]any)
	if ok {
		properties["locals"] = map[string]any{"type": "object", "description": "Values for use as local.NAME."}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(s)
}

// schema describes the body of a block with this label.
func (b *block) schema(label string) map[string]any {
	if b.free {
		return map[string]any{"type": "object", "description": b.doc()}
	}
	properties := map[string]any{}
	var required []string
	for i := range b.args {
		a := &b.args[i]
		if label != "" && !a.applies(label) {
			continue
		}
		properties[a.name] = a.schema(b)
		if a.required {
			required = append(required, a.name)
		}
	}
	for _, sub := range b.blocks {
		properties[sub.name] = sub.labelled()
		if sub.required {
			required = append(required, sub.name)
		}
	}
	s := map[string]any{"type": "object", "description": b.doc(), "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func (b *block) labelled() map[string]any {
	if b.label < 0 {
		return b.schema("")
	}
	if len(b.labels) == 0 {
		return map[string]any{"type": "object", "description": b.doc(), "additionalProperties": b.schema("")}
	}
	properties := map[string]any{}
	for _, label := range b.labels {
		properties[label] = b.schema(label)
	}
	return map[string]any{"type": "object", "description": b.doc(), "properties": properties, "additionalProperties": false, "maxProperties": 1}
}

func (a *argument) schema(b *block) map[string]any {
	s := map[string]any{"description": a.doc(b)}
	numeric := map[string]any{"type": "number"}
	for key, limit := range map[string]*float64{"minimum": a.min, "exclusiveMinimum": a.above, "maximum": a.max} {
		if limit != nil {
			numeric[key] = *limit
		}
	}
	text := map[string]any{"type": "string"}
	if len(a.oneOf) > 0 {
		text["enum"] = a.oneOf
	}
	merge := func(from map[string]any) {
		maps.Copy(s, from)
	}
	switch a.kind {
	case kindNumber:
		merge(numeric)
	case kindWhole:
		merge(numeric)
		s["type"] = "integer"
	case kindBool:
		s["type"] = "boolean"
	case kindTexts:
		s["type"], s["items"], s["uniqueItems"] = "array", text, true
	case kindNumbers:
		s["anyOf"] = []any{numeric, map[string]any{"type": "array", "items": numeric, "minItems": 1}}
	case kindMap:
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": "string"}
	case kindDuration:
		s["type"], s["examples"] = "string", []string{"500ms", "1.5s", "2m"}
	case kindSize:
		s["type"], s["examples"] = "string", []string{"64MiB"}
	case kindSecret:
		s["type"], s["pattern"] = "string", `^\$\{env\("[^"]+"\)\}$`
	default:
		merge(text)
	}
	if a.fallback != "" {
		s["default"] = a.fallback
		if kind := a.kind; kind == kindNumber || kind == kindWhole {
			s["default"] = json.Number(a.fallback)
		} else if kind == kindBool {
			s["default"] = a.fallback == "true"
		}
	}
	return s
}

// Example is the example of one block in the reference: a part of a policy.
type Example struct {
	// Block is the path of the block: "model price".
	Block string
	// Text is the example, HCL at the top of a file.
	Text string
}

// Examples returns the example of each block, in the order of the reference.
func Examples() []Example {
	var list []Example
	var visit func(b *block, path []string)
	visit = func(b *block, path []string) {
		key := strings.Join(path, " ")
		if text, ok := examples()[key]; ok {
			list = append(list, Example{Block: key, Text: text})
		}
		for _, sub := range b.blocks {
			visit(sub, append(slices.Clip(path), sub.name))
		}
	}
	visit(language(), nil)
	return list
}

// Blocks returns the paths of all blocks of the language that the reference
// describes, in its order.
func Blocks() []string {
	var list []string
	var visit func(b *block, path []string)
	visit = func(b *block, path []string) {
		for _, sub := range b.blocks {
			if len(path) > 0 && repeated(path, sub.name) {
				continue
			}
			at := append(slices.Clip(path), sub.name)
			list = append(list, strings.Join(at, " "))
			visit(sub, at)
		}
	}
	visit(language(), nil)
	return list
}

//go:embed examples.hcl
var exampleSource string

// examples are the parts of examples.hcl, by the block that they are of. Each
// begins with a line "#: block".
var examples = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, part := range strings.Split("\n"+exampleSource, "\n#: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		found[strings.TrimSpace(name)] = strings.TrimSpace(text) + "\n"
	}
	return found
})
