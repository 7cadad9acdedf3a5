package policies

import (
	"slices"
	"strings"
)

// Example is the example of one block in the reference: a part of a policy.
type Example struct {
	// Block is the path of the block: "model price".
	Block string
	// Text is the example, HCL at the top of a file.
	Text string
}

// BlockExamples returns the example of each block, in the order of the reference.
func BlockExamples() []Example {
	var list []Example
	var visit func(b *block, path []string)
	visit = func(b *block, path []string) {
		key := strings.Join(path, " ")
		if text, ok := examples()[key]; ok {
			list = append(list, Example{Block: key, Text: text})
		}
		for _, sub := range b.blocks {
			visit(sub, append(slices.Clip(path), sub.name))
		}
	}
	visit(language(), nil)
	return list
}

// Blocks returns the paths of all blocks of the language that the reference
// describes, in its order.
func Blocks() []string {
	var list []string
	var visit func(b *block, path []string)
	visit = func(b *block, path []string) {
		for _, sub := range b.blocks {
			if len(path) > 0 && isDescribedElsewhere(path, sub.name) {
				continue
			}
			at := append(slices.Clip(path), sub.name)
			list = append(list, strings.Join(at, " "))
			visit(sub, at)
		}
	}
	visit(language(), nil)
	return list
}

// Choice exports choice for external tests.
type Choice = choice
