package verify

import (
	"bytes"
	"regexp"
	"slices"
)

var (
	// What a name of a test has behind the function: parameters, a class, subtests in Go.
	afterFunction = regexp.MustCompile(`(?:\[| \(|((?:^|\.)Test\w*)/).*$`)
	lastWord      = regexp.MustCompile(`[\p{L}\p{N}_]+$`)
)

// unknownNames returns the tests which must pass that neither the untouched run has nor any
// file of the tree names. Where answers may add tests, or what cannot be loaded may have them,
// nobody knows.
func (v *Verifier) unknownNames(t *tree, j *judgement) []string {
	if j.before == nil || j.before.report.Broken != "" || v.config.AllowTestEdits {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(j.checks.FailToPass), func(name string) bool {
		if _, found := j.before.report.Status(name); found {
			return true
		}
		word := lastWord.FindString(afterFunction.ReplaceAllString(name, "$1"))
		return word == "" || slices.ContainsFunc(t.Files, func(file string) bool {
			data, err := t.read(file)
			return err != nil || bytes.Contains(data, []byte(word))
		})
	})
}
