package container

import "testing"

func TestImageNames(t *testing.T) {
	for _, test := range []struct{ template, id, own, want string }{
		{"swebench/sweb.eval.x86_64.{instance}:latest", "astropy__astropy-12907", "", "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"},
		{"local/{id}", "a", "", "local/a"},
		{"{image}", "", "ghcr.io/x/y:1", "ghcr.io/x/y:1"},
		{"{image}", "a", "", ""},
		{"{image}", "a", "--privileged", ""},
		{"{id}", "a b", "", ""},
		{"fixed:1", "", "", "fixed:1"},
	} {
		p := &Pool{Options: Options{Image: test.template}}
		if got, err := p.Image(test.id, test.own); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}
