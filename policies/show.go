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
	var b strings.Builder
	var open []string // the heads of the blocks that the last line is in
	for _, s := range p.settings {
		if s.Path[0] == "catalog" && !o.Catalog || s.Origin == "default" && !o.Defaults || s.Path[0] == "include" {
			continue
		}
		heads, same := blockHeads(s.Path), 0
		for same < min(len(open), len(heads)) && open[same] == heads[same] {
			same++
		}
		b.WriteString(strings.Repeat("}\n", len(open)-same))
		for i, head := range heads[same:] {
			if same+i == 0 && b.Len() > 0 {
				b.WriteString("\n")
			}
			b.WriteString(head + " {\n")
		}
		open = heads
		fmt.Fprintf(&b, "%s = %s", s.Path[len(s.Path)-1], s.Value)
		if o.Origins {
			b.WriteString(" # " + strings.ReplaceAll(s.Origin, "\n", " "))
		}
		b.WriteString("\n")
	}
	b.WriteString(strings.Repeat("}\n", len(open)))
	_, err := w.Write(hclwrite.Format([]byte(b.String())))
	return err
}

// blockHeads returns the opening lines of the blocks that hold an argument: types and labels.
func blockHeads(path []string) (heads []string) {
	b := language()
	for i := 0; i < len(path)-1; i++ {
		head := path[i]
		if b = b.block(head); b != nil && b.label >= 0 {
			i++
			head += " " + quote(path[i])
		}
		heads = append(heads, head)
	}
	return heads
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
