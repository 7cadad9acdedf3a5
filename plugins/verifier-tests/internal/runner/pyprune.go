package runner

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"github.com/stepfall/stepfall/sdk/jail"
)

var (
	// notLoaded matches the output of pytest and of unittest about a module that cannot be loaded, from the line of the
	// module on.
	notLoaded = regexp.MustCompile(`(?m)^(\S+\.py):(\d+): in <module>\n(?:[^E\n].*\n)*E +\w+|Failed to import test module: (?s:.*?)  File "([^"]+\.py)", line (\d+), in <module>\n`)
	// lackedName matches the error if a line takes a name from another module that has none.
	lackedName = regexp.MustCompile(`ImportError: cannot import name '(\w+)' from '([\w.]+)'`)
)

// Prune implements [Pruner]: before a line that takes a name from another module it gives the name to that module, as
// a function that fails when it is called. It removes any other statement that fails when its module is loaded. Python
// reports one at a time.
func (*sealedRun) Prune(report *Report, _ []string, read func(file string) ([]byte, error)) (pruned []jail.Change) {
	outputs := []string{report.Broken}
	for _, test := range report.Tests {
		outputs = append(outputs, test.Output)
	}
	for _, output := range outputs {
		found := notLoaded.FindStringSubmatch(output)
		if found == nil {
			continue
		}
		file, source := inTree(found[1]+found[3], read)
		lines := bytes.SplitAfter(source, []byte("\n"))
		number, err := strconv.Atoi(found[2] + found[4])
		if err != nil || number < 1 || number > len(lines) {
			continue
		}
		if name := lackedName.FindStringSubmatch(output); name != nil {
			line := lines[number-1]
			indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
			stub := fmt.Appendf(nil, "%ssetattr(__import__('importlib').import_module('%s'), '%s', lambda *a, **k: a.missing)\n", indent, name[2], name[1])
			lines[number-1] = append(stub, line...)
		} else {
			blankStatement(lines, number-1)
		}
		pruned = append(pruned, jail.Change{Path: file, Data: bytes.Join(lines, nil)})
	}
	return pruned
}

// continued matches the lines that do not begin a statement of a module.
var continued = regexp.MustCompile(`^(?:[\s)\]}#]|(?:else|elif|except|finally)\b|$)`)

// blankStatement blanks the statement of a module that contains a line, with its decorators.
func blankStatement(lines [][]byte, at int) {
	begin, end, isDecorated := 0, len(lines), false
	for i, line := range lines {
		if continued.Match(line) {
			continue
		}
		if !isDecorated {
			if i > at {
				end = i
				break
			}
			begin = i
		}
		isDecorated = line[0] == '@'
	}
	for i := begin; i < end; i++ {
		lines[i] = []byte("\n")
	}
}
