package view

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// The charting library is the one that make charts fetched: uPlot 1.6.32, MIT.
func TestVendoredLibraryIsWhole(t *testing.T) {
	for name, want := range map[string]string{
		"uplot.js":      "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		data, err := files.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != want {
			t.Errorf("%s is another: its sha256 is %s, want %s", name, got, want)
		}
	}
	licence, _ := files.ReadFile("assets/uplot.LICENSE")
	if !strings.Contains(string(licence), "MIT License") {
		t.Error("the licence is not there")
	}
}
