package cli

import "encoding/json"

// printsJSON is the annotation of commands that support --json.
const printsJSON = "json"

func hasJSON() map[string]string { return map[string]string{printsJSON: "yes"} }

func (s Streams) wantsJSON() bool { return s.json != nil && *s.json }

// render prints a result as JSON if --json is set, else by calling text.
func (s Streams) render(result any, text func(p *printer)) error {
	if s.wantsJSON() {
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(result)
	}
	text(&printer{s.Out})
	return nil
}

func (p *printer) table(columns ...column) *grid { return newTable(p.w, columns...) }
