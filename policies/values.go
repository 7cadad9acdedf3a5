package policies

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Secret is a value that is never shown: printing, formatting, logging or marshaling it yields "[secret]".
// The zero value holds no secret.
type Secret struct {
	name string
	// value is a pointer because fmt prints unexported fields without calling their methods: for a pointer it
	// prints the address. Nil means no secret.
	value *string
}

// NewSecret returns a secret with this value; name is the environment variable that it was read from, which
// is not secret.
func NewSecret(name, value string) Secret { return Secret{name: name, value: &value} }

// Reveal returns the value itself.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Set reports whether there is a value.
func (s Secret) Set() bool { return s.value != nil }

// Name returns the environment variable that the secret is read from, even if that variable is not set; ""
// if there is none.
func (s Secret) Name() string { return s.name }

const secretMask = "[secret]"

// String returns "[secret]", or "" if there is no value.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return secretMask
}

// GoString returns what String returns.
func (s Secret) GoString() string { return s.String() }

// Format writes what String returns for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText returns what String returns.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns what String returns.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Bytes is a size in bytes. It is written with a unit: "512KiB", "64MiB", "2GB".
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

// String returns the size in the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits[:3] {
		if b != 0 && int64(b)%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(b)/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", int64(b))
}

func parseBytes(text string) (Bytes, error) {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(math.Abs(n)*float64(u.size) < math.MaxInt64/2) {
			break
		}
		return Bytes(n * float64(u.size)), nil
	}
	return 0, fmt.Errorf("not a size with its unit")
}
