package alter

import (
	"math/rand/v2"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellSource alters what a script compares with: by test, [ and [[, and by grep.
func shellSource(file Source, request *Request, random *rand.Rand) Source {
	altered := Source{Path: file.Path}
	script, err := syntax.NewParser().Parse(strings.NewReader(file.Text), file.Path)
	if err != nil || len(script.Stmts) == 0 {
		return altered
	}
	const fail = "exit 1;"
	results := map[string]bool{} // of commands
	syntax.Walk(script, func(node syntax.Node) bool {
		if a, ok := node.(*syntax.Assign); ok && a.Value != nil && holdsResult(a.Value, results) {
			results[a.Name.Value] = true
		}
		return true
	})
	var edits []edit
	insert := func(at syntax.Pos) { edits = append(edits, edit{int(at.Offset()), int(at.Offset()), fail}) }
	alter := func(site syntax.Node, words ...*syntax.Word) {
		if !slices.ContainsFunc(words, func(w *syntax.Word) bool { return len(words) == 1 || holdsResult(w, results) }) {
			return // it asks for an argument, or for the system
		}
		for _, word := range words {
			if text := otherOperand(file.Text[word.Pos().Offset():word.End().Offset()], len(words) == 1, random); text != "" && request.Way == Reach {
				insert(site.Pos())
			} else if text != "" {
				edits = append(edits, edit{int(word.Pos().Offset()), int(word.End().Offset()), text})
			}
		}
	}
	if request.Way == End {
		insert(script.Stmts[0].Pos())
	} else {
		syntax.Walk(script, func(node syntax.Node) bool {
			switch n := node.(type) {
			case *syntax.CallExpr:
				alter(n, comparedWords(n.Args)...)
			case *syntax.BinaryTest:
				left, isWord := n.X.(*syntax.Word)
				if right, ok := n.Y.(*syntax.Word); ok && isWord {
					alter(n, left, right)
				}
			}
			return true
		})
	}
	if len(edits) > 0 {
		altered.Tests, altered.Count, altered.Text = []string{""}, len(edits), apply(file.Text, edits)
	}
	return altered
}

// holdsResult reports whether a word has the output of a command in it.
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

// comparedWords are the words of a command that it compares with others.
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
		for i, word := range words {
			if slices.Contains([]string{"=", "==", "!=", "-eq", "-ne"}, word.Lit()) && i > 1 && i+1 < len(words) {
				return []*syntax.Word{words[i-1], words[i+1]}
			}
		}
	}
	return nil
}

// otherOperand returns another word of a script in the place of a literal one, else "".
func otherOperand(text string, isPart bool, random *rand.Rand) string {
	change := nearText
	if isPart {
		change = longerText
	}
	plain := strings.Trim(text, `"'`)
	if plain == "" || strings.ContainsAny(plain, "$`\\*\"'") {
		return ""
	}
	return strings.Replace(text, plain, change(plain, random), 1)
}
