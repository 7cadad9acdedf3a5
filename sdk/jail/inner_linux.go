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
	"syscall"

	"golang.org/x/sys/unix"
)

// innerOrder is what the inner process reads from descriptor 3.
type innerOrder struct {
	Order order
	Path  string
	Argv  []string
}

// innerReport is what it writes to descriptor 4 before it becomes the command.
type innerReport struct {
	Error   string
	Layers  []string
	Missing map[string]string
}

// throughInner makes the command start by way of the inner process, which
// restricts itself and then becomes the command. Without namespaces the first
// process must stay outside of the Landlock domain, or the command could kill it.
// The function that is returned hands over the order once the process has started.
func throughInner(command *exec.Cmd, o *order, r *report) (handOver func() error, err error) {
	orders, ordersWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, reportsWriter, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close(), ordersWriter.Close())
	}
	in := innerOrder{Order: *o, Path: command.Path, Argv: command.Args}
	in.Order.Changes = nil
	command.Path, command.Args = "/proc/self/exe", []string{innerName}
	command.ExtraFiles = []*os.File{orders, reportsWriter}
	return func() error {
		orders.Close()
		reportsWriter.Close()
		sent := json.NewEncoder(ordersWriter).Encode(in)
		ordersWriter.Close()
		var got innerReport
		err := json.NewDecoder(reports).Decode(&got)
		_, _ = io.Copy(io.Discard, reports)
		reports.Close()
		switch {
		case sent != nil || err != nil:
			return fmt.Errorf("the inner process said nothing: %w", errors.Join(sent, err))
		case got.Error != "":
			return errors.New(got.Error)
		}
		r.Layers = append(r.Layers, got.Layers...)
		maps.Copy(r.Missing, got.Missing)
		return nil
	}, nil
}

// inner restricts this process and becomes the command. It returns only when it
// cannot, or for a probe.
func inner() int {
	runtime.LockOSThread()
	orders, reports := os.NewFile(3, "orders"), os.NewFile(4, "reports")
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	r := &report{Missing: map[string]string{}}
	var in innerOrder
	err := json.NewDecoder(orders).Decode(&in)
	if err == nil {
		err = restrict(&in.Order, r)
	}
	out := innerReport{Layers: r.Layers, Missing: r.Missing}
	if err != nil {
		out.Error = err.Error()
	}
	if json.NewEncoder(reports).Encode(out) != nil || err != nil {
		return 126
	}
	if in.Order.Probe {
		return 0
	}
	// HOME and TMPDIR are in this process's own environment already.
	if err := syscall.Exec(in.Path, in.Argv, slices.Clone(os.Environ())); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 126
}
