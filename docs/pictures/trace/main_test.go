package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The picture that the pages show is that of the trace beside it.
func TestPictureIsThatOfItsTrace(t *testing.T) {
	trace, err := os.Open("../trace.json")
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	want, err := os.ReadFile("../trace.dot")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := run(trace, &got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("trace.dot is not what trace.json gives: run make pictures")
	}
}

func TestNoTraceIsAnError(t *testing.T) {
	if err := run(strings.NewReader("digraph"), &bytes.Buffer{}); err == nil {
		t.Error("drawn all the same")
	}
}
