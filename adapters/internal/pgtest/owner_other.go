//go:build !unix

package pgtest

import "os/exec"

type owner struct{}

func ordinary() (owner, error) { return owner{}, nil }

func (owner) command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

func (owner) give(string) error { return nil }
