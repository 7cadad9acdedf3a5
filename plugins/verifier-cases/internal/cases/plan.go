package cases

import (
	_ "embed" // the callers of functions
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Plan is a prepared run of a program on a case.
type Plan struct {
	Argv    []string
	Changes []jail.Change
	Reports []string
	// ReadOnly are further paths that the run needs.
	ReadOnly []string
}

var (
	//go:embed call.py
	callPython string
	//go:embed call.cjs
	callNode string
)

const (
	stdinFile = ".stepfall-stdin"
	httpFile  = ".stepfall-http.json"
)

// callers are the scripts that call a function in a file of their language. Other programs get {"function",
// "arguments"} as a line on standard input and write the result.
var callers = []struct {
	program    *regexp.Regexp
	name, text string
}{
	{regexp.MustCompile(`^(python|pypy)[\d.]*$`), ".stepfall-call.py", callPython},
	{regexp.MustCompile(`^node$`), ".stepfall-call.cjs", callNode},
}

// Plan returns the run of the command on the case. file is the command's source file.
func (c *Case) Plan(command []string, file string) (*Plan, error) {
	p := &Plan{Argv: slices.Concat(command, c.Args)}
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		p.Changes = append(p.Changes, jail.Change{Path: name, Data: []byte(c.Files[name])})
	}
	p.Reports = slices.Sorted(maps.Keys(c.Expect.Files))
	stdin := []byte(c.Stdin)
	switch {
	case len(c.HTTP) > 0:
		data, err := c.requests()
		if err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		p.Changes = append(p.Changes, jail.Change{Path: httpFile, Data: data})
		p.Argv = slices.Concat([]string{self, clientName}, p.Argv)
		p.ReadOnly = []string{self}
	case c.Call != nil:
		data, err := json.Marshal(c.Call)
		if err != nil {
			return nil, err
		}
		stdin = append(data, '\n')
		for _, caller := range callers {
			if file != "" && caller.program.MatchString(path.Base(command[0])) {
				p.Argv = []string{command[0], caller.name, file}
				p.Changes = append(p.Changes, jail.Change{Path: caller.name, Data: []byte(caller.text)})
			}
		}
	}
	p.Changes = append(p.Changes, jail.Change{Path: stdinFile, Data: stdin})
	p.Argv = slices.Concat([]string{"/bin/sh", "-c", `exec "$@" < ` + stdinFile, "sh"}, p.Argv)
	return p, nil
}

// requests returns the requests to a server as JSON, without the expected responses.
func (c *Case) requests() ([]byte, error) {
	asked := slices.Clone(c.HTTP)
	for i := range asked {
		asked[i].Expect = nil
	}
	return json.Marshal(asked)
}

// Read returns the output of a planned run, or the reason why it cannot be read.
func (c *Case) Read(result *jail.Result) (out *Output, unreadable string) {
	out = &Output{Stdout: string(result.Stdout), ExitCode: result.ExitCode, Files: map[string]string{}}
	for name, data := range result.Reports {
		out.Files[name] = string(data)
	}
	switch {
	case len(c.HTTP) == 0:
		return out, ""
	case result.ExitCode != 0:
		return nil, "the server did not answer"
	case json.Unmarshal(result.Stdout, &out.Responses) != nil:
		return nil, "its output cannot be read"
	}
	out.Stdout = ""
	return out, ""
}
