package cli

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/stepfall/stepfall/adapters/internal/say"
)

// printer writes until the first error and keeps that.
type printer struct {
	w   io.Writer
	err error
}

// f prints; texts among the arguments, which models, tests and files of others wrote, are
// made safe to look at.
func (p *printer) f(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = say.Plain(text)
		}
	}
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// raw prints what another program will read, byte by byte.
func (p *printer) raw(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

// cut makes a line fit the terminal, where something of so many characters stands before
// it. Elsewhere it stays whole.
func (p *printer) cut(line string, before int) string {
	if most := terminalWidth(p.w); most > 0 {
		return text.Snip(say.Plain(line), max(most-before, 1), "…")
	}
	return line
}
