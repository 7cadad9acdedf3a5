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

// ConfinedProgram is a program that was started within walls; here there are none.
type ConfinedProgram struct {
	Layers  []string
	Missing map[string]string

	pid int // that leads the group
}

// Start starts the command as it is, unless something is required.
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

// Kill ends the program and its process group.
func (c *ConfinedProgram) Kill(process *os.Process) {
	c.Close()
	_ = process.Kill()
}

// Close ends what is left of the process group.
func (c *ConfinedProgram) Close() { processes.KillGroup(c.pid) }
