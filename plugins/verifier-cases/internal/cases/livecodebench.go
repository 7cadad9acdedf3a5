package cases

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// liveCodeBench reads a row of LiveCodeBench: public cases as JSON in a string,
// private ones the same, or packed (base64 of zlib of a pickled string).
func (r *row) liveCodeBench() ([]Case, error) {
	var metadata struct {
		Function string `json:"func_name"`
	}
	if r.Metadata != "" {
		if err := json.Unmarshal([]byte(r.Metadata), &metadata); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	var all []Case
	for _, part := range []struct {
		text   string
		public bool
	}{{r.Public, true}, {r.Private, false}} {
		if strings.TrimSpace(part.text) == "" {
			continue
		}
		text := part.text
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			var err error
			if text, err = unpack(text); err != nil {
				return nil, fmt.Errorf("packed cases: %w", err)
			}
		}
		var list []struct{ Input, Output, TestType string }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("cases: %w", err)
		}
		for _, item := range list {
			c := Case{Public: part.public}
			if item.TestType != "functional" {
				c.Stdin, c.Expect.Stdout = item.Input, &item.Output
				all = append(all, c)
				continue
			}
			if metadata.Function == "" {
				return nil, errors.New("a functional case, and no func_name in the metadata")
			}
			c.Call = &Call{Function: metadata.Function}
			for line := range strings.Lines(item.Input) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				if !json.Valid([]byte(line)) {
					return nil, fmt.Errorf("the argument %.40q is no JSON", line)
				}
				c.Call.Arguments = append(c.Call.Arguments, json.RawMessage(line))
			}
			if !json.Valid([]byte(item.Output)) {
				return nil, fmt.Errorf("the result %.40q is no JSON", item.Output)
			}
			c.Expect.Result = json.RawMessage(item.Output)
			all = append(all, c)
		}
	}
	return all, nil
}

func unpack(text string) (string, error) {
	packed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return "", err
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(z, maxBytes))
	if err != nil {
		return "", err
	}
	return unpickle(data)
}

// unpickle reads a pickle of one string. It refuses all other opcodes.
func unpickle(data []byte) (string, error) {
	malformed := errors.New("it is no pickle of one string")
	if len(data) > 2 && data[0] == 0x80 { // PROTO
		data = data[2:]
	}
	if len(data) > 9 && data[0] == 0x95 { // FRAME
		data = data[9:]
	}
	if len(data) == 0 {
		return "", malformed
	}
	size := uint64(0)
	switch opcode, rest := data[0], data[1:]; {
	case opcode == 0x8c && len(rest) >= 1: // SHORT_BINUNICODE
		size, data = uint64(rest[0]), rest[1:]
	case opcode == 'X' && len(rest) >= 4: // BINUNICODE
		size, data = uint64(binary.LittleEndian.Uint32(rest)), rest[4:]
	case opcode == 0x8d && len(rest) >= 8: // BINUNICODE8
		size, data = binary.LittleEndian.Uint64(rest), rest[8:]
	default:
		return "", malformed
	}
	if size >= uint64(len(data)) || data[len(data)-1] != '.' {
		return "", malformed
	}
	return string(data[:size]), nil
}
