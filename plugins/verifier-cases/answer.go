package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/patch"
	"github.com/stepfall/stepfall/sdk/regular"
)

func (r *run) apply(answer *sdk.Answer) (*sdk.Verdict, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := patch.Apply(regular.FS(root), patch.Within(patch.Parse(answer, r.v.config.File), r.dir))
	if misfit := (*patch.Error)(nil); errors.As(err, &misfit) {
		return &sdk.Verdict{Outcome: misfit.Outcome(), Evidence: "the answer cannot be applied: " + misfit.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	if files, err = r.nameProgram(root, files); err != nil {
		return r.verdict(sdk.Inconclusive, err.Error()), nil //nolint:nilerr // it is the verdict's evidence
	}
	for _, file := range files {
		r.changes = append(r.changes, jail.Change{Path: file.Path, Data: file.Content, Mode: file.Mode, Delete: file.Delete})
	}
	return nil, nil
}

// nameProgram renames the answer's program to the configured file if the answer gives it another name
// (solution.py) that no command contains. It is an error if several files could be the program.
func (r *run) nameProgram(root *os.Root, files []patch.File) ([]patch.File, error) {
	config := &r.v.config
	if _, err := root.Stat(config.File); config.File == "" || err == nil {
		return files, nil
	}
	commands := strings.Join(slices.Concat(config.Build, config.Command), " ")
	var programs []int
	var names []string
	for i, file := range files {
		if file.Path == config.File || strings.Contains(commands, file.Path) {
			return files, nil
		}
		if path.Ext(file.Path) == path.Ext(config.File) {
			programs, names = append(programs, i), append(names, file.Path)
		}
	}
	switch len(programs) {
	case 0:
	case 1:
		files[programs[0]].Path = config.File
	default:
		return nil, fmt.Errorf("the answer has no %s: it may be any of %s", config.File, strings.Join(names, ", "))
	}
	return files, nil
}
