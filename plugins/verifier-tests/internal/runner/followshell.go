package runner

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// helperName matches names of functions in shell by which tests compare, or which are about them.
var helperName = regexp.MustCompile(`(?i)assert|check|compare|diff|die|equal|expect|fail|match|pass|run|same|setup|should|teardown|test|valid|verif|^(cmp|eq|is|ok)$`)

// definesCode reports whether a script defines functions and nothing else but variables, or nothing
// yet, and no function that is named as if it were a part of the tests.
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
		case *syntax.CallExpr: // set -eu, too
			return len(command.Args) > 0 && command.Args[0].Lit() != "set"
		case *syntax.DeclClause:
			return false
		}
		return true
	}) && isCode
}

// shell adds what a script runs. Where it looks at what is printed, it runs what is tested.
func (f *follower) shell(text string, depth int) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil || depth > maxFollowed {
		return // what the shell cannot read it does not run
	}
	defer func(before []string) { f.examined = before }(f.examined)
	f.examined = examinedBy(file)
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
		tested := outputOf(node)
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

// makesExamined reports whether a command is given the name of something that is not in the tree and
// that the script looks at: the command is to make it, and is no check by its own name.
func (f *follower) makesExamined(words []string) bool {
	if slices.ContainsFunc(words, func(word string) bool { return helperName.MatchString(path.Base(word)) }) {
		return false
	}
	return len(words) > 1 && slices.ContainsFunc(words[1:], func(word string) bool {
		name, ok := f.place(word)
		return ok && !f.isFile(name) && slices.ContainsFunc(f.examined, func(one string) bool { return one == word || strings.HasPrefix(one, word+"/") })
	})
}

// examinedBy are the words of what a script substitutes or compares.
func examinedBy(file *syntax.File) (words []string) {
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CmdSubst:
			for _, statement := range n.Stmts {
				if call, ok := statement.Cmd.(*syntax.CallExpr); ok {
					words = append(words, literals(call)...)
				}
			}
		case *syntax.CallExpr:
			if all := literals(n); len(all) > 0 && (comparers.MatchString(all[0]) || all[0] == "[" || all[0] == "test") {
				words = append(words, all[1:]...)
			}
		}
		return true
	})
	return words
}

// outputOf are the statements within a node whose output is used, in a substitution or by what
// compares it, or is written to a file.
func outputOf(node syntax.Node) []*syntax.Stmt {
	switch n := node.(type) {
	case *syntax.CmdSubst:
		return n.Stmts
	case *syntax.BinaryCmd:
		if call, ok := n.Y.Cmd.(*syntax.CallExpr); ok && n.Op == syntax.Pipe && len(call.Args) > 0 && comparers.MatchString(literal(call.Args[0])) {
			return []*syntax.Stmt{n.X}
		}
	case *syntax.Stmt:
		if n.Cmd != nil && slices.ContainsFunc(n.Redirs, isFile) {
			return []*syntax.Stmt{{Cmd: n.Cmd}}
		}
	}
	return nil
}

// isFile reports whether a redirection is that of the output to a file.
func isFile(r *syntax.Redirect) bool {
	return r.Op == syntax.RdrOut && r.N == nil && !strings.HasPrefix(literal(r.Word), "/dev/")
}

// literal is a word without its quotes; what is substituted is left out, so that
// "$DIR/check.py" is check.py.
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
