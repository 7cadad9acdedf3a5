package host

import (
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/stepfall/stepfall/sdk/regular"
)

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

// CheckPin returns an [ErrChecksum] if a checksum is pinned and the program at path has another one.
func CheckPin(path, sum, pin string) error {
	if pin == "" || pin == sum {
		return nil
	}
	return fmt.Errorf("%w: %s has %s, pinned is %s", ErrChecksum, path, sum, pin)
}

// program is a plugin's file, opened so that the checked file is the one that is run.
type program struct {
	path string
	// exec is the path to execute instead of path, or empty.
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
	pin := h.cfg.Plugins[plugin].SHA256
	if pin == "" {
		return &program{path: path}, nil
	}
	f, _, err := regular.Open(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	p := &program{path: path, file: f}
	// Not cached: a program that is overwritten in place keeps its inode, and can keep its size and time.
	sum, err := checksum(f)
	if err != nil {
		p.close()
		return nil, fmt.Errorf("checking plugin %s: %w", plugin, err)
	}
	if err := CheckPin(path, sum, pin); err != nil {
		p.close()
		return nil, err
	}
	p.exec, err = execPath(f)
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// IsNative reports whether the program is machine code: ELF, Mach-O or PE.
func IsNative(path string) bool {
	f, _, err := regular.Open(os.OpenFile, path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 4)
	if _, err := io.ReadFull(f, start); err != nil {
		return false
	}
	machO := []uint32{macho.Magic32, macho.Magic64, macho.MagicFat}
	return string(start) == elf.ELFMAG || string(start[:2]) == "MZ" ||
		slices.Contains(machO, binary.LittleEndian.Uint32(start)) || slices.Contains(machO, binary.BigEndian.Uint32(start))
}

// isScript reports whether the file is run by an interpreter, which opens it by its path.
func isScript(f *os.File) (bool, error) {
	start := make([]byte, 2)
	_, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(start) == "#!", nil
}

// allowedEnv are the variables of the host's environment that every plugin gets: those with which programs
// find files and tools, and no secrets.
var allowedEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ",
	"LANG", "LC_ALL", "LC_CTYPE",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOTOOLCHAIN",
	"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "VIRTUAL_ENV", "JAVA_HOME", "MAVEN_USER_HOME", "GRADLE_USER_HOME",
	"SYSTEMROOT", "USERPROFILE", "TEMP", "TMP",
}

func environment(c PluginConfig) []string {
	var env []string
	for _, name := range slices.Concat(allowedEnv, c.PassEnv) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	return env
}

// secrets returns the values that must not appear in logs and results: those of the plugin's own variables, except
// switches, which are words of any text.
func secrets(c PluginConfig) []string {
	out := slices.Collect(maps.Values(c.Env))
	for _, name := range c.PassEnv {
		if !slices.Contains(allowedEnv, name) {
			out = append(out, os.Getenv(name))
		}
	}
	return slices.DeleteFunc(out, func(v string) bool {
		_, err := strconv.ParseBool(v)
		return v == "" || err == nil
	})
}
