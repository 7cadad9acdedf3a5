package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Markdown returns a table of the arguments, one row each; those of nested
// objects follow with dotted names.
func (s *Schema) Markdown() string {
	if s == nil || len(s.Fields) == 0 {
		return "No arguments.\n"
	}
	var b strings.Builder
	b.WriteString("| argument | type | default | meaning |\n| --- | --- | --- | --- |\n")
	rows(&b, s.Fields, "")
	return b.String()
}

func rows(b *strings.Builder, fields []Field, prefix string) {
	for _, f := range fields {
		standard := ""
		switch {
		case f.Required:
			standard = "required"
		case f.Default != nil:
			data, _ := json.Marshal(f.Default)
			standard = "`" + string(data) + "`"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", prefix, f.Name, f.Type, standard, strings.ReplaceAll(f.description(), "|", "\\|"))
		rows(b, f.Fields, prefix+f.Name+".")
	}
}

func (f *Field) description() string {
	bounds, enum, sensitive, deprecated := "", "", "", ""
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch {
	case f.Min != nil && f.Max != nil:
		bounds = fmt.Sprintf("From %s to %s.", number(*f.Min), number(*f.Max))
	case f.Min != nil:
		bounds = fmt.Sprintf("At least %s.", number(*f.Min))
	case f.Max != nil:
		bounds = fmt.Sprintf("At most %s.", number(*f.Max))
	}
	if len(f.Enum) > 0 {
		words := make([]string, len(f.Enum))
		for i, e := range f.Enum {
			words[i] = fmt.Sprintf("`%v`", e)
		}
		enum = "One of " + strings.Join(words, ", ") + "."
	}
	if f.Sensitive {
		sensitive = "Never shown."
	}
	if f.Deprecated != "" {
		deprecated = "Deprecated: " + f.Deprecated + "."
	}
	parts := []string{f.Doc, bounds, enum, sensitive, deprecated}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}
