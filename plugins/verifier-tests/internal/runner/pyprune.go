package runner

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strconv"

	"github.com/stepfall/stepfall/sdk/jail"
)

// lackedName matches the output of a module that pytest cannot load, since a line of it takes a name from another
// module that has none.
var lackedName = regexp.MustCompile(`(?m)^(\S+\.py):(\d+): in <module>\n(?:[^E\n].*\n)*E +ImportError: cannot import name '(\w+)' from '([\w.]+)'`)

// Prune implements [Pruner]: before such a line it gives the name to the other module, as a function that fails when it
// is called. Python reports one name at a time.
func (*sealedRun) Prune(report *Report, read func(file string) ([]byte, error)) (pruned []jail.Change) {
	for _, test := range report.Tests {
		found := lackedName.FindStringSubmatch(test.Output)
		if found == nil {
			continue
		}
		file := path.Clean(found[1])
		source, err := read(file)
		at, number := bytes.SplitAfter(source, []byte("\n")), 0
		if err == nil {
			number, err = strconv.Atoi(found[2])
		}
		if err != nil || number < 1 || number > len(at) {
			continue // a file from elsewhere
		}
		line := at[number-1]
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		stub := fmt.Appendf(nil, "%ssetattr(__import__('importlib').import_module('%s'), '%s', lambda *a, **k: a.missing)\n", indent, found[4], found[3])
		at[number-1] = append(stub, line...)
		pruned = append(pruned, jail.Change{Path: file, Data: bytes.Join(at, nil)})
	}
	return pruned
}
