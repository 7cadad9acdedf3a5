package cli

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/stepfall/stepfall/adapters/internal/say"
)

// printer writes text for people. An [errorWriter] below it remembers what cannot be written.
type printer struct{ w io.Writer }

// f prints a formatted text. It escapes control characters in string arguments, which may come from models and files.
func (p *printer) f(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = say.Plain(text)
		}
	}
	fmt.Fprintf(p.w, format, args...)
}

// raw prints text unescaped, for other programs.
func (p *printer) raw(text string) { fmt.Fprint(p.w, text) }

// cut truncates a line, which is printed after before other characters, to the width of the terminal, if there is
// one.
func (p *printer) cut(line string, before int) string {
	if most := terminalWidth(p.w); most > 0 {
		return text.Snip(say.Plain(line), max(most-before, 1), "…")
	}
	return line
}
