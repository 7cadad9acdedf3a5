package containertest

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var programs = []string{"sh", "cat", "rm", "sleep", "grep", "env", "id", "ls", "head", "true", "echo", "printf", "mkdir"}

var library = regexp.MustCompile(`(/\S+)`)

// image builds the image once per process.
var image = sync.OnceValues(func() ([]string, string) {
	const name = "localhost/stepfall-test:1"
	for _, engine := range [][]string{
		{"podman"},
		{"podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs"},
		{"docker"},
	} {
		if _, err := exec.LookPath(engine[0]); err != nil {
			continue
		}
		call := func(arguments ...string) *exec.Cmd {
			return exec.Command(engine[0], append(engine[1:], arguments...)...)
		}
		if call("image", "inspect", name).Run() != nil {
			root, err := archive()
			if err != nil {
				return nil, "no image can be made here: " + err.Error()
			}
			load := call("import", "-", name)
			load.Stdin = bytes.NewReader(root)
			if load.Run() != nil {
				continue
			}
		}
		try := call("run", "--rm", "--network", "none", "--memory", "64m", "--pids-limit", "64", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=512:512", name, "/bin/sh", "-c", "true")
		if try.Run() == nil {
			return engine, name
		}
	}
	return nil, "no container engine that runs an image here"
})

// Image returns the engine's command and an image with a shell, or skips the test.
func Image(t testing.TB) (command []string, name string) {
	t.Helper()
	command, name = image()
	if command == nil {
		t.Skip(name)
	}
	return command, name
}

func archive() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	done := map[string]bool{}
	add := func(at, from string) error {
		if done[at] {
			return nil
		}
		done[at] = true
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(at, "/"), Mode: 0o755, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			return nil, err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		if err := add("/bin/"+program, path); err != nil {
			return nil, err
		}
		libraries, err := exec.Command("ldd", path).Output()
		if err != nil {
			continue // statically linked
		}
		for _, match := range library.FindAllString(string(libraries), -1) {
			if err := add(match, match); err != nil {
				return nil, err
			}
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}
