package dialect

import (
	"bytes"
	"unicode/utf8"

	"github.com/stepfall/stepfall/middleware"
)

// textPiece is the form of the last event with a piece of text. Most events of a stream differ from
// the previous one only in that text, so they need not be parsed.
type textPiece struct {
	event      []byte // without its text
	head, tail []byte // the parts of event before and after the text
	delta      middleware.Delta
}

// match returns the delta of an event that differs from the last one only in its text, or nil. It is
// valid until the next call.
func (p *textPiece) match(event []byte) *middleware.Delta {
	if len(p.head) == 0 || len(event) <= len(p.head)+len(p.tail) || !bytes.HasPrefix(event, p.head) || !bytes.HasSuffix(event, p.tail) {
		return nil
	}
	text := event[len(p.head) : len(event)-len(p.tail)]
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return nil
		}
	}
	if !utf8.Valid(text) {
		return nil
	}
	if p.delta.Text != "" {
		p.delta.Text = string(text)
	} else {
		p.delta.Reasoning = string(text)
	}
	return &p.delta
}

// keep remembers the form of an event whose only content is d. text is the JSON of d's text. An event
// that contains it twice is not remembered.
func (p *textPiece) keep(event []byte, text string, d *middleware.Delta) {
	p.head = nil
	at := bytes.Index(event, []byte(text))
	if (d.Text == "") == (d.Reasoning == "") || text[0] != '"' || at < 0 || bytes.Contains(event[at+1:], []byte(text)) {
		return
	}
	p.event = append(append(p.event[:0], event[:at+1]...), event[at+len(text)-1:]...)
	p.head, p.tail = p.event[:at+1], p.event[at+1:]
	p.delta = middleware.Delta{Choice: d.Choice, Text: d.Text, Reasoning: d.Reasoning}
}
