//go:build !linux

package jail

import (
	"context"
	"errors"
)

// Main does nothing: runs need Linux.
func Main() {}

// Jail runs commands within the walls that the machine offers: here, none.
type Jail struct{}

// errNotLinux is why nothing runs.
var errNotLinux = errors.New("running tests on answers needs Linux")

// Open fails: an answer is not run without walls.
func Open(context.Context, Options) (*Jail, error) { return nil, errNotLinux }

// Layers returns no layer.
func (*Jail) Layers() ([]string, map[string]string) { return nil, nil }

// Run fails.
func (*Jail) Run(context.Context, *Spec) (*Result, error) { return nil, errNotLinux }
