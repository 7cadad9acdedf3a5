package policies

import (
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// ShowOptions controls how much Show writes. The zero value shows only what was set explicitly.
type ShowOptions struct {
	// Defaults includes arguments that have their default.
	Defaults bool
	// Origins adds to each line the origin of its value.
	Origins bool
	// Catalog includes the catalogue of models.
	Catalog bool
}

// Show writes the effective policy as one file that loads to the same policy. Secrets are written as the
// env() calls that read them.
func (p *Policy) Show(w io.Writer, o ShowOptions) error {
	root := &blockWriter{}
	for _, s := range p.settings {
		if s.Path[0] == "catalog" && !o.Catalog || s.Origin == "default" && !o.Defaults || s.Path[0] == "include" {
			continue
		}
		line := fmt.Sprintf("%s = %s", s.Path[len(s.Path)-1], s.Value)
		if o.Origins {
			line += " # " + strings.ReplaceAll(s.Origin, "\n", " ")
		}
		root.add(language(), s.Path, line)
	}
	var b strings.Builder
	root.write(&b)
	_, err := w.Write(hclwrite.Format([]byte(b.String())))
	return err
}

type blockWriter struct {
	head   string
	lines  []string
	blocks []*blockWriter
}

func (s *blockWriter) add(b *block, path []string, line string) {
	if len(path) == 1 {
		s.lines = append(s.lines, line)
		return
	}
	head, rest := path[0], path[1:]
	sub := b.block(head)
	if sub != nil && sub.label >= 0 {
		head += " " + quote(rest[0])
		rest = rest[1:]
	}
	for _, inner := range s.blocks {
		if inner.head == head {
			inner.add(sub, rest, line)
			return
		}
	}
	inner := &blockWriter{head: head}
	s.blocks = append(s.blocks, inner)
	inner.add(sub, rest, line)
}

func (s *blockWriter) write(b *strings.Builder) {
	for _, line := range s.lines {
		b.WriteString(line + "\n")
	}
	for i, inner := range s.blocks {
		if s.head == "" && (i > 0 || len(s.lines) > 0) {
			b.WriteString("\n")
		}
		b.WriteString(inner.head + " {\n")
		inner.write(b)
		b.WriteString("}\n")
	}
}

// Format returns src in the standard format: two spaces per level, equals signs aligned. If src cannot
// be parsed, the error is a [Diagnostics], and the caller should leave the source unchanged.
func Format(name string, src []byte) ([]byte, error) {
	if _, diags := parse(src, name); diags.HasErrors() {
		l := newLoader(LoadOptions{Env: []string{}})
		l.sources[name] = src
		l.reportSyntax(diags, "")
		return nil, l.finish()
	}
	return hclwrite.Format(src), nil
}
