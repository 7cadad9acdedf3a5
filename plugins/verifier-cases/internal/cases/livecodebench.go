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

// liveCodeBench reads the cases of a LiveCodeBench row. Public cases are JSON in a string; private ones are
// the same, or packed (base64 of zlib of a pickled string).
func (r *row) liveCodeBench() ([]Case, error) {
	var metadata struct {
		Function string `json:"func_name"`
	}
	if r.Metadata != "" {
		if err := json.Unmarshal([]byte(r.Metadata), &metadata); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	public, err := liveCodeBenchCases(r.Public, metadata.Function)
	if err != nil {
		return nil, err
	}
	for i := range public {
		public[i].Public = true
	}
	private, err := liveCodeBenchCases(r.Private, metadata.Function)
	return append(public, private...), err
}

func liveCodeBenchCases(text, function string) (all []Case, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if !strings.HasPrefix(strings.TrimSpace(text), "[") {
		if text, err = unpack(text); err != nil {
			return nil, fmt.Errorf("packed cases: %w", err)
		}
	}
	var list []struct{ Input, Output, TestType string }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("cases: %w", err)
	}
	for _, item := range list {
		c := Case{Stdin: item.Input, Expect: Expect{Stdout: &item.Output}}
		if item.TestType == "functional" {
			if c, err = functionalCase(function, item.Input, item.Output); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// functionalCase returns a case that calls the function with the arguments in the lines of input.
func functionalCase(function, input, output string) (c Case, err error) {
	if function == "" {
		return c, errors.New("a functional case without func_name in the metadata")
	}
	c.Call = &Call{Function: function}
	for line := range strings.Lines(input) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !json.Valid([]byte(line)) {
			return c, fmt.Errorf("the argument %.40q is not JSON", line)
		}
		c.Call.Arguments = append(c.Call.Arguments, json.RawMessage(line))
	}
	if !json.Valid([]byte(output)) {
		return c, fmt.Errorf("the result %.40q is not JSON", output)
	}
	c.Expect.Result = json.RawMessage(output)
	return c, nil
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

// unpickle decodes a pickle of a single string. It rejects all other opcodes.
func unpickle(data []byte) (string, error) {
	_, data, _ = cutOpcode(data, 0x80, 1) // PROTO
	_, data, _ = cutOpcode(data, 0x95, 8) // FRAME
	// SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
	for opcode, width := range map[byte]int{0x8c: 1, 'X': 4, 0x8d: 8} {
		size, text, ok := cutOpcode(data, opcode, width)
		if ok && size < uint64(len(text)) && text[len(text)-1] == '.' {
			return string(text[:size]), nil
		}
	}
	return "", errors.New("it is not a pickled string")
}

// cutOpcode returns the argument of an opcode, a number of width bytes, and the rest of data.
func cutOpcode(data []byte, opcode byte, width int) (argument uint64, rest []byte, ok bool) {
	if len(data) <= width || data[0] != opcode {
		return 0, data, false
	}
	var number [8]byte
	copy(number[:], data[1:1+width])
	return binary.LittleEndian.Uint64(number[:]), data[1+width:], true
}
