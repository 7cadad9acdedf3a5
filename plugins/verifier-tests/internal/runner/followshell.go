package runner

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// helperName matches names of shell functions that belong to tests.
var helperName = regexp.MustCompile(`(?i)assert|check|compare|diff|die|equal|expect|fail|match|pass|run|same|setup|should|teardown|test|valid|verif|^(cmp|eq|is|ok)$`)

// definesCode reports whether a script is empty or only defines functions and variables, and no function has
// the name of a test helper.
func definesCode(text string) bool {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return false
	}
	isCode := len(file.Stmts) == 0
	return !slices.ContainsFunc(file.Stmts, func(s *syntax.Stmt) bool {
		switch command := s.Cmd.(type) {
		case *syntax.FuncDecl:
			isCode = true
			return helperName.MatchString(command.Name.Value)
		case *syntax.CallExpr: // such as set -eu
			return len(command.Args) > 0 && command.Args[0].Lit() != "set"
		case *syntax.DeclClause:
			return false
		}
		return true
	}) && isCode
}

// shell adds what a script runs. Commands whose output it examines count as tested.
func (f *follower) shell(text string, depth int) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil || depth > maxFollowed {
		return // the shell cannot parse and run it either
	}
	defer func(before []string) { f.examined = before }(f.examined)
	f.examined = examinedWords(file)
	f.walk(file, depth)
}

func (f *follower) walk(root syntax.Node, depth int) {
	syntax.Walk(root, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok {
			words := literals(call)
			before := f.compared
			f.compared = before || f.makesExamined(words)
			f.command(words, depth)
			f.compared = before
		}
		tested := outputStatements(node)
		before := f.compared
		for _, statement := range tested {
			f.compared = true
			f.walk(statement, depth)
		}
		f.compared = before
		return tested == nil
	})
}

func literals(call *syntax.CallExpr) (words []string) {
	for _, word := range call.Args {
		words = append(words, literal(word))
	}
	return words
}

// makesExamined reports whether a command creates something that the script examines: an argument names it,
// the tree does not have it, and the command is not named like a check.
func (f *follower) makesExamined(words []string) bool {
	if slices.ContainsFunc(words, func(word string) bool { return helperName.MatchString(path.Base(word)) }) {
		return false
	}
	return len(words) > 1 && slices.ContainsFunc(words[1:], func(word string) bool {
		name, ok := f.localPath(word)
		return ok && !f.isFile(name) && slices.ContainsFunc(f.examined, func(one string) bool { return one == word || strings.HasPrefix(one, word+"/") })
	})
}

// examinedWords returns the words in substitutions and comparisons of a script.
func examinedWords(file *syntax.File) (words []string) {
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CmdSubst:
			for _, statement := range n.Stmts {
				if call, ok := statement.Cmd.(*syntax.CallExpr); ok {
					words = append(words, literals(call)...)
				}
			}
		case *syntax.CallExpr:
			if examiners.MatchString(programOf(n)) {
				words = append(words, literals(n)[1:]...)
			}
		}
		return true
	})
	return words
}

// outputStatements returns the statements of a node whose output is substituted, piped to a comparer, or
// written to a file.
func outputStatements(node syntax.Node) []*syntax.Stmt {
	switch n := node.(type) {
	case *syntax.CmdSubst:
		return n.Stmts
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe && comparers.MatchString(programOf(n.Y.Cmd)) {
			return []*syntax.Stmt{n.X}
		}
	case *syntax.Stmt:
		if n.Cmd != nil && slices.ContainsFunc(n.Redirs, writesFile) {
			return []*syntax.Stmt{{Cmd: n.Cmd}}
		}
	}
	return nil
}

func programOf(command syntax.Command) string {
	if call, ok := command.(*syntax.CallExpr); ok && len(call.Args) > 0 {
		return literal(call.Args[0])
	}
	return ""
}

// writesFile reports whether a redirection writes the standard output to a file.
func writesFile(r *syntax.Redirect) bool {
	return r.Op == syntax.RdrOut && r.N == nil && !strings.HasPrefix(literal(r.Word), "/dev/")
}

// literal returns a word without quotes and substitutions: "$DIR/check.py" becomes check.py.
func literal(word *syntax.Word) string {
	var b strings.Builder
	syntax.Walk(word, func(node syntax.Node) bool {
		switch part := node.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
			return false
		}
		return true
	})
	if len(word.Parts) > 1 {
		return strings.TrimPrefix(b.String(), "/")
	}
	return b.String()
}
