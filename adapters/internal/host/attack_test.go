//go:build unix

package host_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// TestAttackProgramOverwrittenInPlace: an overwritten program that keeps its inode, size and times is detected.
func TestAttackProgramOverwrittenInPlace(t *testing.T) {
	dir, program := copyOfPlugin(t)
	sum, err := host.Checksum(program)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, host.Config{SearchPath: []string{dir}, Plugins: map[string]host.PluginConfig{"test": {SHA256: sum}}})
	if err := ask(within(t, 2*time.Minute), estimator(t, h, nil), ""); err != nil {
		t.Fatalf("the pinned program: %v", err)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	// It runs, so that it cannot be written to; another name of the same content can.
	if err := os.Rename(program, program+".runs"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program + ".runs")
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := errors.Join(os.WriteFile(program, data, 0o755), os.Chtimes(program, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if err := ask(within(t, 2*time.Minute), estimator(t, h, nil), ""); !errors.Is(err, host.ErrChecksum) {
		t.Errorf("another program of the same size and time: %v", err)
	}
}

// TestAttackProgramOthersMayWrite: a program that other users can replace is not started.
func TestAttackProgramOthersMayWrite(t *testing.T) {
	for name, open := range map[string]func(dir, program string) error{
		"the program": func(_, program string) error { return os.Chmod(program, 0o777) },
		"its folder":  func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"a folder above": func(dir, _ string) error {
			return os.Chmod(filepath.Dir(dir), 0o777)
		},
		"a folder above, its group": func(dir, _ string) error {
			if os.Getuid() != 0 {
				return errors.ErrUnsupported
			}
			return errors.Join(os.Chown(filepath.Dir(dir), 0, 12345), os.Chmod(filepath.Dir(dir), 0o775))
		},
		"the folder of a link to it": func(dir, program string) error {
			elsewhere := filepath.Join(filepath.Dir(dir), "elsewhere")
			return errors.Join(os.Mkdir(elsewhere, 0o755), os.Rename(program, filepath.Join(elsewhere, "test")), os.Symlink(filepath.Join(elsewhere, "test"), program), os.Chmod(dir, 0o777))
		},
		"its group": func(_, program string) error {
			if os.Getuid() != 0 {
				return errors.ErrUnsupported
			}
			return errors.Join(os.Chown(program, 0, 12345), os.Chmod(program, 0o775))
		},
		"its owner": func(_, program string) error {
			if os.Getuid() != 0 {
				return errors.ErrUnsupported
			}
			return os.Chown(program, 12345, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, program := copyOfPlugin(t)
			if err := open(dir, program); errors.Is(err, errors.ErrUnsupported) {
				t.Skip("only root can make it so")
			} else if err != nil {
				t.Fatal(err)
			}
			h := newHost(t, host.Config{SearchPath: []string{dir}})
			if _, err := h.QualityEstimator("quality", "test", nil); err == nil || !strings.Contains(err.Error(), "is writable by") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAttackSocketOfAnother: the host does not connect to a socket outside of the plugin's directory.
func TestAttackSocketOfAnother(t *testing.T) {
	for name, address := range map[string]string{
		"another folder":                      "unix|/run/docker.sock",
		"out of its folder":                   "unix|$PLUGIN_UNIX_SOCKET_DIR/../../x",
		"the network":                         "tcp|127.0.0.1:22",
		"a link":                              "unix|$PLUGIN_UNIX_SOCKET_DIR/link",
		"a file, no socket":                   "unix|$PLUGIN_UNIX_SOCKET_DIR/file",
		"a path that is none":                 "unix|relative",
		"a socket of another by another name": "unix|$PLUGIN_UNIX_SOCKET_DIR/hard",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test")
			theirs, err := os.MkdirTemp("", "sock") // a socket's path must be short
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(theirs)
			listener, err := net.Listen("unix", filepath.Join(theirs, "s"))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			script := fmt.Sprintf("#!/bin/sh\nln "+theirs+"/s \"$PLUGIN_UNIX_SOCKET_DIR/hard\"; ln -s /run/docker.sock \"$PLUGIN_UNIX_SOCKET_DIR/link\"; : > \"$PLUGIN_UNIX_SOCKET_DIR/file\"\necho \"1|%d|%s|grpc|\"\nsleep 5\n", wire.ProtocolVersion, address)
			if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {Path: path}}})
			err = ask(within(t, 2*time.Minute), estimator(t, h, nil), "")
			if err == nil || !strings.Contains(err.Error(), "the plugin names") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAttackWordsOfAPlugin: a plugin's error message cannot control a terminal, and its secrets are redacted in any
// spelling.
func TestAttackWordsOfAPlugin(t *testing.T) {
	const secret = "planted config/secret+1"
	h := newHost(t, host.Config{})
	err := ask(within(t, 2*time.Minute), estimator(t, h, map[string]any{"secret": secret, "file": "\x1b[2J\u009b31m\u202e" + url.QueryEscape(secret)}), "words")
	var call *host.CallError
	if !errors.As(err, &call) || strings.ContainsAny(err.Error(), "\x1b\u009b\u202e") || strings.Contains(err.Error(), "config") || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("got %q", err)
	}
}
