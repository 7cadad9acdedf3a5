//go:build !linux

package jail

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Confined is a program that was started within walls; here there are none.
type Confined struct {
	Layers  []string
	Missing map[string]string

	kill func()
}

// Start starts the command as it is, unless something is required.
func (j *Jail) Start(_ context.Context, command *exec.Cmd, c *Confinement) (*Confined, error) {
	confined := &Confined{}
	confined.Layers, confined.Missing = j.Layers()
	if lacks := Lacks(c.Require, confined.Layers); len(lacks) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrLacks, strings.Join(lacks, ", "))
	}
	confined.kill = ownGroup(command)
	return confined, command.Start()
}

// Kill ends the program and its process group.
func (c *Confined) Kill(process *os.Process) {
	c.kill()
	_ = process.Kill()
}

// Close ends what is left of the process group.
func (c *Confined) Close() { c.kill() }
