//go:build !linux

package jail

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/stepfall/stepfall/sdk/internal/processes"
)

// ConfinedProgram is a program started by [Jail.Start]; on this platform it is not isolated.
type ConfinedProgram struct {
	Layers  []string
	Missing map[string]string

	pid int // of the process group's leader
}

// Start starts the command without isolation, or fails if c requires any.
func (j *Jail) Start(_ context.Context, command *exec.Cmd, c *Confinement) (*ConfinedProgram, error) {
	confined := &ConfinedProgram{}
	confined.Layers, confined.Missing = j.Layers()
	if lacks := Lacks(c.Require, confined.Layers); len(lacks) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrLacks, strings.Join(lacks, ", "))
	}
	processes.OwnGroup(command)
	if err := command.Start(); err != nil {
		return nil, err
	}
	confined.pid = command.Process.Pid
	return confined, nil
}

// Kill kills the program and its process group.
func (c *ConfinedProgram) Kill(process *os.Process) {
	c.Close()
	_ = process.Kill()
}

// Close kills what is left of the process group.
func (c *ConfinedProgram) Close() { processes.KillGroup(c.pid) }
