package middleware

import "testing"

// Inputs that are not texts refer to files; braces within a text do not.
func TestEmbeddedFiles(t *testing.T) {
	for request, want := range map[string]int{
		`{"input":"func f() { return map[string]int{} }"}`:     0,
		`{"input":["{}","{\"a\":1}"],"options":{"num_ctx":1}}`: 0,
		`{"input":[1,2,3]}`:                                         0,
		`{"input":{"image":"https://x"}}`:                           1,
		`{"input":["a",{"image":"https://x"},{"text":"b","n":{}}]}`: 2,
		`{}`: 0, `x`: 0,
	} {
		if n := countFiles([]byte(request)); n != want {
			t.Errorf("%s: %d, want %d", request, n, want)
		}
	}
}
