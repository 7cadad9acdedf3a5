package collect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Task is one sample query, a line of the task file.
type Task struct {
	QueryID string `json:"query_id"`
	Group   string `json:"group,omitempty"`
	Prompt  string `json:"prompt"`
	// System, when not empty, is the system prompt.
	System string            `json:"system,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// WorkDir and the tests are for verifiers that run tests; WorkDir is relative to the task file.
	WorkDir    string   `json:"work_dir,omitempty"`
	FailToPass []string `json:"fail_to_pass,omitempty"`
	PassToPass []string `json:"pass_to_pass,omitempty"`
	// Schema is the JSON schema that an answer must satisfy.
	Schema json.RawMessage `json:"schema,omitempty"`
}

func (t *Task) info(run string) middleware.Info {
	return middleware.Info{
		QueryID: t.QueryID, Group: t.Group, Run: run, Labels: t.Labels, WorkDir: t.WorkDir,
		Checks: sdk.Checks{FailToPass: t.FailToPass, PassToPass: t.PassToPass},
		Format: sdk.ResponseFormat{JSON: len(t.Schema) > 0, Schema: t.Schema},
	}
}

// ReadTasks reads a file of tasks. It reports all invalid lines at once.
func ReadTasks(path string) ([]Task, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var tasks []Task
	var faults []error
	seen := map[string]int{}
	in := bufio.NewReader(file)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			task, fault := readTask(text)
			if first, twice := seen[task.QueryID]; fault == nil && twice {
				fault = fmt.Errorf("duplicate query_id %q: see line %d", task.QueryID, first)
			}
			if fault != nil {
				faults = append(faults, fmt.Errorf("%s:%d: %w", path, line, fault))
			} else {
				if task.WorkDir != "" && !filepath.IsAbs(task.WorkDir) {
					task.WorkDir = filepath.Join(filepath.Dir(path), task.WorkDir)
				}
				seen[task.QueryID] = line
				tasks = append(tasks, task)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	if len(tasks)+len(faults) == 0 {
		faults = append(faults, fmt.Errorf("%s has no tasks", path))
	}
	return tasks, errors.Join(faults...)
}

func readTask(text []byte) (Task, error) {
	var t Task
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return t, err
	}
	if t.QueryID == "" || t.Prompt == "" {
		return t, errors.New("a task needs query_id and prompt")
	}
	return t, nil
}
