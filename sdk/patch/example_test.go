package patch_test

import (
	"fmt"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

func ExampleApplyToMap() {
	answer := &sdk.Answer{Text: `The sign is wrong:

calc/add.go
<<<<<<< SEARCH
return a - b
=======
return a + b
>>>>>>> REPLACE
`}
	files := map[string]string{"calc/add.go": "func Add(a, b int) int {\n\treturn a - b\n}\n"}
	after, err := patch.ApplyToMap(files, patch.Parse(answer, ""))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(after["calc/add.go"])
	// Output:
	// func Add(a, b int) int {
	// 	return a + b
	// }
}

func ExampleApplyToMap_misfit() {
	answer := &sdk.Answer{Text: "```go path=../evil.go\npackage evil\n```"}
	_, err := patch.ApplyToMap(nil, patch.Parse(answer, ""))
	fmt.Println(err)
	// Output:
	// ../evil.go: is outside of the work tree
}
