package schema

import (
	"encoding/json"
	"fmt"
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
	parts := []string{}
	if f.Doc != "" {
		parts = append(parts, f.Doc)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch {
	case f.Min != nil && f.Max != nil:
		parts = append(parts, fmt.Sprintf("From %s to %s.", number(*f.Min), number(*f.Max)))
	case f.Min != nil:
		parts = append(parts, fmt.Sprintf("At least %s.", number(*f.Min)))
	case f.Max != nil:
		parts = append(parts, fmt.Sprintf("At most %s.", number(*f.Max)))
	}
	if len(f.Enum) > 0 {
		words := make([]string, len(f.Enum))
		for i, e := range f.Enum {
			words[i] = fmt.Sprintf("`%v`", e)
		}
		parts = append(parts, "One of "+strings.Join(words, ", ")+".")
	}
	if f.Sensitive {
		parts = append(parts, "Never shown.")
	}
	if f.Deprecated != "" {
		parts = append(parts, "Deprecated: "+f.Deprecated+".")
	}
	return strings.Join(parts, " ")
}
