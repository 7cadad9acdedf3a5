package outcome

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// RotatedFiles returns the rotated predecessors of a file of traces, oldest first.
func RotatedFiles(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	var numbers []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var names []string
	for _, n := range slices.Backward(numbers) {
		names = append(names, fmt.Sprint(path, ".", n))
	}
	return names, err
}

// olderTraces returns the rotated predecessors of a file that hold traces: others are somebody's copies.
func olderTraces(path string) []string {
	files, err := RotatedFiles(path)
	if err != nil {
		return nil // opening the file itself says what is wrong
	}
	return slices.DeleteFunc(files, func(name string) bool {
		file, err := os.Open(name)
		if err != nil {
			return true
		}
		defer file.Close()
		var fields map[string]any
		for lines := json.NewDecoder(file); !isTrace(fields); {
			fields = nil
			if lines.Decode(&fields) != nil {
				return true
			}
		}
		return false
	})
}
