package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/stepfall/stepfall/sdk/regular"
)

// LockName is the usual name of a lock file, beside the policy.
const LockName = "stepfall-plugins.lock"

// Lock records which programs an operator trusts, by plugin name. It is kept in
// a file that belongs in version control.
type Lock struct {
	Plugins map[string]LockEntry `json:"plugins"`
}

// LockEntry is one plugin of a [Lock].
type LockEntry struct {
	Version string `json:"version,omitempty"`
	// SHA256 are the checksums of the program in hexadecimal, by platform
	// ("linux/amd64").
	SHA256 map[string]string `json:"sha256"`
}

// Platform names the platform in lock files.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// ReadLock reads a lock file.
func ReadLock(path string) (*Lock, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var l Lock
	if err := dec.Decode(&l); err != nil {
		return nil, fmt.Errorf("lock file %s: %w", path, err)
	}
	if l.Plugins == nil {
		return nil, fmt.Errorf("lock file %s: no plugins", path)
	}
	return &l, nil
}

// Write writes the lock file.
func (l *Lock) Write(path string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func (l *Lock) sum(plugin string) (string, error) {
	locked, ok := l.Plugins[plugin]
	if !ok {
		return "", fmt.Errorf("%w: %s is not in the lock file; `stepfall plugin check --lock` adds it", errChecksum, plugin)
	}
	sum, ok := locked.SHA256[Platform()]
	if !ok {
		return "", fmt.Errorf("%w: the lock file has %s not for %s; `stepfall plugin check --lock` adds it", errChecksum, plugin, Platform())
	}
	return sum, nil
}

// Checksum returns the SHA-256 of a file in hexadecimal.
func Checksum(path string) (string, error) {
	f, _, err := regular.Open(os.OpenFile, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return checksum(f)
}

func checksum(f *os.File) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// program is a plugin's file, opened so that what is checked is what is run.
type program struct {
	path string
	// exec is what to execute instead of path; empty means path.
	exec string
	file *os.File
}

func (p *program) close() {
	if p.file != nil {
		p.file.Close()
	}
}

func (h *Host) open(plugin string) (*program, error) {
	path, err := h.find(plugin)
	if err != nil {
		return nil, err
	}
	var pins []string
	if pin := h.cfg.Plugins[plugin].SHA256; pin != "" {
		pins = append(pins, pin)
	}
	if h.cfg.Lock != nil {
		pin, err := h.cfg.Lock.sum(plugin)
		if err != nil {
			return nil, err
		}
		pins = append(pins, pin)
	}
	if len(pins) == 0 {
		return &program{path: path}, nil
	}
	f, _, err := regular.Open(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	p := &program{path: path, file: f}
	// Anew at each start: a program that is overwritten in place keeps its inode, and
	// can keep its size and time.
	sum, err := checksum(f)
	if err != nil {
		p.close()
		return nil, fmt.Errorf("checking plugin %s: %w", plugin, err)
	}
	for _, pin := range pins {
		if pin != sum {
			p.close()
			return nil, fmt.Errorf("%w: %s has %s, pinned is %s", errChecksum, path, sum, pin)
		}
	}
	p.exec, err = execPath(f)
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// isScript reports whether the file is run by an interpreter, which opens it by
// its path.
func isScript(f *os.File) (bool, error) {
	start := make([]byte, 2)
	_, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(start) == "#!", nil
}
