package cases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Case is one test case: an input and the expected result.
type Case struct {
	Name string `json:"name"`
	// Public means that evidence of a failure can show the input and the expected result.
	Public bool `json:"public"`

	// Stdin, Args and Files are the program's input.
	Stdin string            `json:"stdin"`
	Args  []string          `json:"args"`
	Files map[string]string `json:"files"`
	// Call, if set, is a function to call instead; HTTP are requests to send to a server.
	Call *Call     `json:"call"`
	HTTP []Request `json:"http"`

	Expect Expect `json:"expect"`
}

// Call is a function call with JSON arguments.
type Call struct {
	Function  string            `json:"function"`
	Arguments []json.RawMessage `json:"arguments"`
}

// Request is one request to the server under test, and the expected response.
type Request struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	Expect *Response         `json:"expect,omitempty"`
}

// Response is a server's response. In an expected response, absent fields are not compared.
type Response struct {
	Status int               `json:"status,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	Body   *string           `json:"body,omitempty"`
}

// Expect is the expected result. Fields that are nil are not compared.
type Expect struct {
	Stdout   *string           `json:"stdout"`
	ExitCode *int              `json:"exit_code"`
	Files    map[string]string `json:"files"`
	Result   json.RawMessage   `json:"result"`
}

func (c *Case) expectsAnything() bool {
	return c.Expect.Stdout != nil || c.Expect.ExitCode != nil || len(c.Expect.Files) > 0 || len(c.Expect.Result) > 0 ||
		slices.ContainsFunc(c.HTTP, func(r Request) bool { return r.Expect != nil })
}

// Output is the result of running a program on a case.
type Output struct {
	Stdout   string
	ExitCode int
	Files    map[string]string
	// Responses are the responses of an HTTP case.
	Responses []Response
}

// Check describes what is wrong with the output; "" means that it is right.
func (c *Case) Check(out *Output, compare Compare) string {
	exitCode := 0
	if c.Expect.ExitCode != nil {
		exitCode = *c.Expect.ExitCode
	}
	if out.ExitCode != exitCode {
		return fmt.Sprintf("exit code %d", out.ExitCode)
	}
	if len(c.Expect.Result) > 0 && !sameJSON(string(c.Expect.Result), out.Stdout, compare.Tolerance) {
		return "wrong result"
	}
	if c.Expect.Stdout != nil {
		if why := compare.Texts(*c.Expect.Stdout, out.Stdout); why != "" {
			return "wrong output: " + why
		}
	}
	return cmp.Or(c.checkFiles(out, compare), c.checkResponses(out, compare))
}

func (c *Case) checkFiles(out *Output, compare Compare) string {
	for _, name := range slices.Sorted(maps.Keys(c.Expect.Files)) {
		got, ok := out.Files[name]
		if !ok {
			return "the file " + name + " was not written"
		}
		if why := compare.Texts(c.Expect.Files[name], got); why != "" {
			return "wrong content of " + name + ": " + why
		}
	}
	return ""
}

func (c *Case) checkResponses(out *Output, compare Compare) string {
	for i, request := range c.HTTP {
		if request.Expect == nil {
			continue
		}
		if i >= len(out.Responses) {
			return fmt.Sprintf("request %d was not answered", i+1)
		}
		if why := request.Expect.check(&out.Responses[i], compare); why != "" {
			return fmt.Sprintf("request %d, %s %s: %s", i+1, cmp.Or(request.Method, "GET"), request.Path, why)
		}
	}
	return ""
}

func (want *Response) check(got *Response, compare Compare) string {
	if want.Status != 0 && got.Status != want.Status {
		return fmt.Sprintf("status %d", got.Status)
	}
	for name, value := range want.Header {
		if !strings.EqualFold(got.Header[strings.ToLower(name)], value) {
			return "wrong header " + name
		}
	}
	if want.Body == nil {
		return ""
	}
	body := ""
	if got.Body != nil {
		body = *got.Body
	}
	if why := compare.Texts(*want.Body, body); why != "" {
		return "wrong body: " + why
	}
	return ""
}
