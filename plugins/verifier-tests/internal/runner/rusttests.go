package runner

import (
	"bytes"
	"regexp"
	"slices"
)

// Rust's tests lie in the files that they test: an answer that writes such a file
// anew would write its judge. The tests of the clean tree take their place.

// span is a part of a source, in bytes.
type span struct{ from, to int }

var (
	// testAttribute is an attribute of what is there for tests only.
	testAttribute = regexp.MustCompile(`^#\s*\[\s*(cfg\s*\((\s*all\s*\()?\s*test\b|(\w+\s*::\s*)*(test|\w+_test|test_\w+|rstest|quickcheck|proptest|parameterized|bench)\b)`)
	// testFile is the attribute of a whole file.
	testFile   = regexp.MustCompile(`(?m)^\s*#!\s*\[\s*cfg\s*\(\s*test\s*\)`)
	docComment = regexp.MustCompile(`^(///|/\*\*)`)
	// assertion defines what tests assert with, by a macro or by a name for one.
	assertion = regexp.MustCompile(`\b(macro_rules\s*!\s*|as\s+)(r#)?(assert\w*|debug_assert\w*|panic|unreachable|unimplemented|todo|matches)\b|\bmacro_rules\s*!\s*\$`)
	// moduleFile says in which file a module lies; it ends before the path.
	moduleFile = regexp.MustCompile(`[\[(,]\s*path\s*=\s*r?#*"`)
)

// rustTests returns the items of a source that are tests, with their attributes. ok
// is false when some are within another item, or the file is one of tests as a whole.
func rustTests(src []byte) (items []span, ok bool) {
	if testFile.Match(src) {
		return nil, false
	}
	ok = true
	depth, attributes := 0, -1 // where the attributes of the next item begin
	test := false
	for at := 0; at < len(src); {
		next := rustToken(src, at)
		switch c := src[at]; {
		case docComment.Match(src[at:next]), c == '#' && next > at+1 && src[at+1] == '[':
			if attributes < 0 {
				attributes = at
			}
			test = test || testAttribute.Match(src[at:next])
		case bytes.HasPrefix(src[at:], []byte("//")), bytes.HasPrefix(src[at:], []byte("/*")), c == ' ', c == '\n', c == '\t', c == '\r':
		case test:
			end := rustItem(src, at)
			if depth > 0 {
				return nil, false
			}
			items = append(items, span{attributes, end})
			next, attributes, test = end, -1, false
		default:
			attributes = -1
			switch c {
			case '{', '(', '[': // what is between brackets may be anything to a macro
				depth++
			case '}', ')', ']':
				depth--
			}
		}
		at = next
	}
	return items, ok
}

// rustItem returns the end of the item that begins at: its semicolon or the brace
// that closes it.
func rustItem(src []byte, at int) int {
	depth := 0
	for at < len(src) {
		next := rustToken(src, at)
		switch src[at] {
		case '{', '(', '[':
			depth++
		case '}', ')', ']':
			depth--
			if depth <= 0 && src[at] == '}' {
				return next
			}
		case ';':
			if depth == 0 {
				return next
			}
		}
		at = next
	}
	return at
}

var (
	rawText  = regexp.MustCompile(`^(?:b|c)?r(#*)"`)
	rustChar = regexp.MustCompile(`^b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])'`)
	rustWord = regexp.MustCompile(`^[\pL_][\pL\pN_]*`)
)

// rustToken returns where the token, comment, text or attribute at ends.
func rustToken(src []byte, at int) int {
	rest := src[at:]
	until := func(end string, from int) int {
		if i := bytes.Index(rest[min(from, len(rest)):], []byte(end)); i >= 0 {
			return at + from + i + len(end)
		}
		return len(src)
	}
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		return until("\n", 2)
	case bytes.HasPrefix(rest, []byte("/*")):
		return rustComment(src, at)
	case rest[0] == '"', bytes.HasPrefix(rest, []byte(`b"`)), bytes.HasPrefix(rest, []byte(`c"`)):
		return rustText(src, at+bytes.IndexByte(rest, '"')+1)
	case rest[0] == '#' && len(rest) > 1 && (rest[1] == '[' || rest[1] == '!' && len(rest) > 2 && rest[2] == '['):
		return rustAttribute(src, at)
	}
	if raw := rawText.FindSubmatch(rest); raw != nil {
		return until(`"`+string(raw[1]), len(raw[0]))
	}
	const longest = 200 // of a character, with its escape
	if found := rustChar.Find(rest[:min(len(rest), longest)]); len(found) > 0 {
		return at + len(found)
	}
	return at + max(1, len(rustWord.Find(rest)))
}

func rustComment(src []byte, at int) int {
	depth := 0
	for ; at < len(src); at++ {
		switch {
		case bytes.HasPrefix(src[at:], []byte("/*")):
			depth++
			at++
		case bytes.HasPrefix(src[at:], []byte("*/")):
			depth--
			at++
			if depth == 0 {
				return at + 1
			}
		}
	}
	return len(src)
}

// rustText returns the end of a text whose first character is at.
func rustText(src []byte, at int) int {
	for ; at < len(src); at++ {
		switch src[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(src)
}

func rustAttribute(src []byte, at int) int {
	depth := 0
	for at++; at < len(src); {
		next := rustToken(src, at)
		switch src[at] {
		case '[':
			depth++
		case ']':
			depth--
			if depth == 0 {
				return next
			}
		}
		at = next
	}
	return len(src)
}

// Decides: a file whose tests cannot be told from the rest is kept as it is.
func (*cargo) Decides(file string, before, _ []byte) bool {
	if !isRust(file) {
		return false
	}
	_, ok := rustTests(before)
	return !ok
}

// Suspect: assertions of an answer's own would hold for everything, and modules in
// files of other names would not be looked at.
func (*cargo) Suspect(_ *Tree, file string, before, after []byte) string {
	if !isRust(file) {
		return ""
	}
	before, after = withoutComments(before), withoutComments(after)
	for _, found := range assertion.FindAll(after, -1) {
		if !bytes.Contains(before, found) {
			return "has assertions of its own (" + string(found) + ")"
		}
	}
	for _, at := range moduleFile.FindAllIndex(after, -1) {
		name, _, _ := bytes.Cut(after[at[1]:], []byte(`"`))
		if !isRust(string(name)) && !bytes.Contains(before, append(after[at[0]:at[1]:at[1]], name...)) {
			return "has a module in a file that is none of Rust's (" + string(name) + ")"
		}
	}
	return ""
}

// withoutComments returns a source with a space in the place of each comment.
func withoutComments(src []byte) []byte {
	out := make([]byte, 0, len(src))
	for at := 0; at < len(src); {
		next := rustToken(src, at)
		switch {
		case bytes.HasPrefix(src[at:], []byte("//")), bytes.HasPrefix(src[at:], []byte("/*")):
			out = append(out, ' ')
		case src[at] == '#' && next > at+2: // an attribute may have comments too
			out = append(append(out, '#'), withoutComments(src[at+1:next])...)
		default:
			out = append(out, src[at:next]...)
		}
		at = next
	}
	return out
}

// Restore returns what an answer makes of a file, with the tests of the clean tree in
// the place of the answer's.
func (*cargo) Restore(file string, before, after []byte) []byte {
	if !isRust(file) {
		return after
	}
	tests, _ := rustTests(before)
	if len(tests) == 0 {
		return after
	}
	own, ok := rustTests(after)
	if ok && slices.EqualFunc(tests, own, func(a, b span) bool { return bytes.Equal(before[a.from:a.to], after[b.from:b.to]) }) {
		return after
	}
	var out []byte
	at := 0
	for _, item := range own {
		out = append(out, after[at:item.from]...)
		at = item.to
	}
	out = append(out, after[at:]...)
	out = append(out, "\nconst _: () = ();\n"...) // what the answer ends with is not about the first of them
	for _, item := range tests {
		out = append(append(out, '\n'), before[item.from:item.to]...)
	}
	return append(out, '\n')
}

func isRust(file string) bool { return len(file) > 3 && file[len(file)-3:] == ".rs" }
