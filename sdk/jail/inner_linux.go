package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
)

// innerOrder is the message to the inner process.
type innerOrder struct {
	Order order
	Path  string
	Argv  []string
	// Layers are those that the first process has set up.
	Layers []string
}

// startThroughInner makes the command start as the inner process, which restricts itself and then execs
// the command. Without namespaces the first process must stay outside the Landlock domain, or the
// command could kill it. handOver sends the order once the process has started.
func startThroughInner(command *exec.Cmd, o *order, r *report) (handOver func() error, err error) {
	p, err := openPipes()
	if err != nil {
		return nil, err
	}
	in := innerOrder{Order: *o, Path: command.Path, Argv: command.Args, Layers: r.Layers}
	in.Order.Changes = nil
	files := command.ExtraFiles
	command.Path, command.Args = "/proc/self/exe", []string{innerName, strconv.Itoa(3 + len(files))}
	command.ExtraFiles = append(slices.Clip(files), p.childEnds()...)
	if o.Guest.isFile() {
		command.ExtraFiles = append(command.ExtraFiles, os.NewFile(uintptr(o.Guest.program), "program"))
	}
	return func() error {
		defer p.close()
		got, err := p.exchange(in)
		_, _ = io.Copy(io.Discard, p.reports) // until exec closes the pipe
		switch {
		case err != nil:
			return fmt.Errorf("no report of the inner process: %w", err)
		case got.Error != "":
			return errors.New(got.Error)
		}
		r.Layers, r.Lacks = got.Layers, got.Lacks
		maps.Copy(r.Missing, got.Missing)
		return nil
	}, nil
}

// runInner restricts this process and execs the command. It returns only if that fails.
func runInner() int {
	runtime.LockOSThread()
	orders, reports := descriptors()
	r := &report{Result: Result{Missing: map[string]string{}}}
	var in innerOrder
	err := json.NewDecoder(orders).Decode(&in)
	if err == nil {
		r.Layers = in.Layers
		if guest := in.Order.Guest; guest.isFile() {
			guest.program = int(reports.Fd()) + 1
			in.Path = "/proc/self/fd/" + strconv.Itoa(guest.program)
		}
		if err = restrict(&in.Order, r); err == nil {
			recordLacks(&in.Order, r)
		}
	}
	if err != nil {
		r.Error = err.Error()
	}
	if json.NewEncoder(reports).Encode(r) != nil || err != nil || len(r.Lacks) > 0 {
		return 126
	}
	// This process's own environment already has HOME and TMPDIR.
	if err := syscall.Exec(in.Path, in.Argv, slices.Clone(os.Environ())); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 126
}
