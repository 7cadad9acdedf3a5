// Package diagnose validates lists in the config blocks of verifiers.
package diagnose

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Each returns a diagnostic "VALUE is WHAT" for each value of an argument for which isRight is false.
func Each(argument string, list []string, what string, isRight func(value string) bool) (wrong schema.Diagnostics) {
	for i, value := range list {
		if !isRight(value) {
			wrong = append(wrong, schema.Errorf([]string{argument, strconv.Itoa(i)}, "%q is %s", value, what)...)
		}
	}
	return wrong
}

// Layers returns the diagnostics of the argument require.
func Layers(require []string) schema.Diagnostics {
	names := jail.Names()
	return Each("require", require, "not one of "+strings.Join(names, ", "), func(name string) bool { return slices.Contains(names, name) })
}
