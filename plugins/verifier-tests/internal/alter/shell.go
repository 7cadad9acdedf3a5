package alter

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

type shellAlteration struct {
	request *Request
	random  *rand.Rand
	source  *Source
	text    string
	prefix  string
	// results are the variables with the output of commands.
	results map[string]bool
	// roles are the operators by which comparisons must hold, if not =.
	roles map[syntax.Node]string
	edits []edit
	// hasNotes means that a comparison is recorded; then no other is altered.
	hasNotes bool
	// others maps the altered words to their replacements.
	others map[string]string
}

const failScript = "exit 1;"

// shellSource alters the operands of test, [, [[ and grep in a script.
func shellSource(file Source, request *Request, random *rand.Rand) Source {
	altered := Source{Path: file.Path}
	script, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(file.Text), file.Path)
	if err != nil || len(script.Stmts) == 0 {
		return altered
	}
	s := &shellAlteration{request: request, random: random, source: &altered, text: file.Text, prefix: randomWord(random) + "_", results: map[string]bool{}, roles: map[syntax.Node]string{}, others: map[string]string{}}
	syntax.Walk(script, func(node syntax.Node) bool {
		s.setResults(node)
		s.setRoles(node)
		return true
	})
	begin := int(script.Stmts[0].Pos().Offset())
	if request.Way == End {
		s.edits = []edit{{begin, begin, failScript}}
	} else {
		s.walk(script)
		s.hasNotes = len(altered.Compared) > 0
		s.edits, altered.Compared = nil, nil
		clear(s.others)
		s.walk(script)
	}
	if len(s.edits) > 0 {
		if len(altered.Compared) > 0 {
			s.edits = append([]edit{{begin, begin, strings.NewReplacer("@record", request.Record, "@", s.prefix).Replace(shellHelper)}}, s.edits...)
		}
		altered.Tests, altered.Count, altered.Text = []string{""}, len(s.edits), apply(file.Text, append(s.edits, s.comments(script)...))
	}
	return altered
}

// shellHelper is a function that records the operand of a comparison, in the file of that name in a parent
// directory.
const shellHelper = `@saw() { @file=@record; while [ ! -e "$@file" ] && [ ${#@file} -lt 99 ]; do @file=../$@file; done; ` +
	`printf '%s\t=%s\n' "$1" "$(printf %s "$2" | tr '\n\t' '  ')" 2>/dev/null >>"$@file" || :; printf %s "${3-$2}"; }; `

// comments returns edits of the comments that name altered words.
func (s *shellAlteration) comments(script *syntax.File) (edits []edit) {
	syntax.Walk(script, func(node syntax.Node) bool {
		if c, ok := node.(*syntax.Comment); ok {
			edits = append(edits, edit{int(c.Pos().Offset()), int(c.End().Offset()), "#" + alterComment(c.Text, s.others)})
		}
		return true
	})
	return edits
}

func (s *shellAlteration) walk(script *syntax.File) {
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CallExpr:
			s.alter(n, comparedWords(n.Args))
		case *syntax.BinaryTest:
			left, isWord := n.X.(*syntax.Word)
			if right, ok := n.Y.(*syntax.Word); ok && isWord {
				s.alter(n, []*syntax.Word{left, right})
			}
		}
		return true
	})
}

func (s *shellAlteration) setResults(node syntax.Node) {
	if a, ok := node.(*syntax.Assign); ok && a.Value != nil && holdsResult(a.Value, s.results) {
		s.results[a.Name.Value] = true
	}
}

// notRole is the role of a comparison that need not hold.
const notRole = "not"

// setRoles sets the roles of the comparisons in a node: != in `if A != B; then exit 1`, for example.
func (s *shellAlteration) setRoles(node syntax.Node) {
	role := func(statement *syntax.Stmt, operator string, isEnd bool) {
		if !isEnd || statement.Negated {
			operator = notRole
		}
		s.roles[statement.Cmd] = operator
	}
	switch n := node.(type) {
	case *syntax.Stmt:
		if n.Negated {
			s.roles[n.Cmd] = notRole
		}
	case *syntax.BinaryCmd:
		operator := "!="
		if n.Op == syntax.OrStmt {
			operator = "="
		}
		role(n.X, operator, endsTest(n.Y))
		role(n.Y, notRole, false)
	case *syntax.IfClause:
		for _, condition := range n.Cond {
			role(condition, "!=", len(n.Then) > 0 && slices.ContainsFunc(n.Then, endsTest))
		}
	case *syntax.WhileClause:
		for _, condition := range n.Cond {
			role(condition, notRole, false)
		}
	case *syntax.TestClause:
		s.roles[n.X] = cmp.Or(s.roles[n], "=")
	case *syntax.BinaryTest:
		s.roles[n.X], s.roles[n.Y] = notRole, notRole
	}
}

// endsTest reports whether a statement ends the test, as exit does.
func endsTest(statement *syntax.Stmt) (found bool) {
	syntax.Walk(statement, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			found = found || slices.Contains([]string{"exit", "return", "fail", "die", "false"}, call.Args[0].Lit())
		}
		return !found
	})
	return found
}

// mustBeEqual reports whether the test fails if the words of a comparison differ.
func (s *shellAlteration) mustBeEqual(site syntax.Node) bool {
	operator := ""
	switch n := site.(type) {
	case *syntax.CallExpr:
		for _, word := range n.Args {
			if slices.Contains(equalityOperators, word.Lit()) {
				operator = word.Lit()
			}
		}
	case *syntax.BinaryTest:
		operator = n.Op.String()
	}
	role := "="
	if operator == "!=" || operator == "-ne" {
		role = "!="
	}
	return cmp.Or(s.roles[site], "=") == role
}

var equalityOperators = []string{"=", "==", "!=", "-eq", "-ne"}

func (s *shellAlteration) word(w *syntax.Word) string {
	return s.text[w.Pos().Offset():w.End().Offset()]
}

// wholeWord returns a word with its expansions quoted, so that it stays one word outside of [[, too.
func (s *shellAlteration) wholeWord(w *syntax.Word) (text string) {
	for _, part := range w.Parts {
		one := s.text[part.Pos().Offset():part.End().Offset()]
		switch part.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
			one = `"` + one + `"`
		}
		text += one
	}
	return text
}

func (s *shellAlteration) alter(site syntax.Node, words []*syntax.Word) {
	if !slices.ContainsFunc(words, func(w *syntax.Word) bool { return len(words) == 1 || holdsResult(w, s.results) }) {
		return // it tests an argument or the system, not a result
	}
	for i, word := range words {
		from, to := int(word.Pos().Offset()), int(word.End().Offset())
		text := otherOperand(s.word(word), s.random)
		switch {
		case text == "":
		case s.request.Way == Reach:
			at := int(site.Pos().Offset())
			s.edits = append(s.edits, edit{at, at, failScript})
		case len(words) == 2 && s.canRecord(site, words[1-i]):
			s.record(word, words[1-i])
		case s.request.Way == Expectation && !s.hasNotes:
			s.edits = append(s.edits, edit{from, to, text})
			s.others[strings.Trim(s.word(word), `"'`)] = strings.Trim(text, `"`)
		}
	}
}

func (s *shellAlteration) canRecord(site syntax.Node, actual *syntax.Word) bool {
	return s.request.Record != "" && s.mustBeEqual(site) && holdsResult(actual, s.results)
}

// record wraps the word that is compared with a literal one in a call that records it, and alters the literal.
func (s *shellAlteration) record(expected, actual *syntax.Word) {
	other, place := strings.Trim(s.word(expected), `"'`), int(expected.Pos().Offset())
	c := Comparison{Name: fmt.Sprintf("%s:%d", s.source.Path, place), Values: []string{"=" + other}}
	s.source.Compared = append(s.source.Compared, c)
	if s.request.Way != Record {
		other = otherWord(other, s.random)
		s.others[c.Values[0][1:]] = other
	}
	saw := fmt.Sprintf(`%ssaw "%s" %s`, s.prefix, c.Name, s.wholeWord(actual))
	if s.request.Way == Hold {
		saw += ` "` + other + `"`
	}
	s.edits = append(s.edits, edit{place, int(expected.End().Offset()), `"` + other + `"`},
		edit{int(actual.Pos().Offset()), int(actual.End().Offset()), `"$(` + saw + `)"`})
}

// holdsResult reports whether a word contains the output of a command.
func holdsResult(word *syntax.Word, results map[string]bool) (found bool) {
	syntax.Walk(word, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CmdSubst:
			found = true
		case *syntax.ParamExp:
			found = found || results[n.Param.Value]
		}
		return !found
	})
	return found
}

// comparedWords returns the operands of grep or of a comparison by test.
func comparedWords(words []*syntax.Word) []*syntax.Word {
	if len(words) == 0 {
		return nil
	}
	switch words[0].Lit() {
	case "grep":
		for _, word := range words[1:] {
			if !strings.HasPrefix(word.Lit(), "-") {
				return []*syntax.Word{word}
			}
		}
	case "test", "[":
		for i := 2; i+1 < len(words); i++ {
			if slices.Contains(equalityOperators, words[i].Lit()) {
				return []*syntax.Word{words[i-1], words[i+1]}
			}
		}
	}
	return nil
}

// otherOperand returns another word for a literal one, or "" for any other word.
func otherOperand(text string, random *rand.Rand) string {
	plain := strings.Trim(text, `"'`)
	if plain == "" || strings.ContainsAny(plain, "$`\\*\"'") || plain == text && strings.ContainsAny(plain, "?[~") {
		return ""
	}
	return `"` + otherWord(plain, random) + `"`
}
