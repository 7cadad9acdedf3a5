package alter

import (
	"slices"
	"strings"
	"testing"
)

// Questions in Go are the statements by which a test comes to what it compares, a row of a table for
// itself, without what is expected, names and messages.
func TestQuestionsInGo(t *testing.T) {
	const source = `package stack

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

type row struct {
	name, in string
	want     int
	bad      bool
}

var rows = []row{{"one is 1", "one", 1, false}, {name: "none", in: "x", bad: true}}

func TestRows(t *testing.T) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got, err := Parse(r.in)
			if (err != nil) != r.bad {
				t.Fatalf("%v", err)
			}
			if r.bad {
				return
			}
			if got != r.want {
				t.Errorf("got %d, want %d", got, r.want)
			}
		})
	}
}

func check(t *testing.T, s *Stack, want []string) {
	t.Helper()
	if got := s.All(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStack(t *testing.T) {
	s := New()
	s.Push("a")
	check(t, s, []string{"a"})
	if s.Empty() || s.Len() != 1 {
		t.Error("length")
	}
}

func TestComputed(t *testing.T) {
	in := strings.Repeat("ab", 2)
	want := strings.ToUpper(in)
	if got := Upper(in); got != want {
		t.Error(got)
	}
}

func TestInPlace(t *testing.T) {
	list := []int{3, 1}
	Sort(list)
	if want := []int{1, 3}; !reflect.DeepEqual(list, want) {
		t.Error(list)
	}
}

func TestSaysWhatIsExpected(t *testing.T) {
	if _, err := Parse("?"); !errors.Is(err, ErrSyntax) {
		t.Error(err)
	}
}
`
	altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Record: ".record", Files: []Source{{Path: "a_test.go", Text: source}}})
	var asked []string
	body := func(program string) string {
		_, text, _ := strings.Cut(program, "func question(t *testing.T) {\n")
		return strings.Join(strings.Fields(strings.NewReplacer("\n", "; ", "{\n", "", "}\n", "").Replace(text)), " ")
	}
	for _, q := range altered[0].Questions {
		asked = append(asked, q.Test+": "+body(q.Program)+" "+q.Value+body(q.Expected))
	}
	const parsed = `got, err := Parse(r.in); _ = got; _ = err; `
	want := []string{
		`TestRows: r := ([]row{{in: "one"}})[0]; _ = r; ` + parsed + `_answer((err != nil)); =false`,
		`TestRows: r := ([]row{{in: "one"}})[0]; _ = r; ` + parsed + `_ = (err != nil); _answer(got); =1`,
		`TestRows: r := ([]row{{in: "x"}})[0]; _ = r; ` + parsed + `_answer((err != nil)); =true`,
		`TestStack: s := New(); _ = s; s.Push("a"); var s *Stack = s; _ = s; got := s.All(); _ = got; _answer(got); =["a"]`,
		`TestStack: s := New(); _ = s; s.Push("a"); var s *Stack = s; _ = s; got := s.All(); _ = got; _ = got; _answer(s.Empty()); =false`,
		`TestStack: s := New(); _ = s; s.Push("a"); var s *Stack = s; _ = s; got := s.All(); _ = got; _ = got; _ = s.Empty(); _answer(s.Len()); =1`,
		`TestComputed: in := strings.Repeat("ab", 2); _ = in; got := Upper(in); _ = got; _answer(got); in := strings.Repeat("ab", 2); _ = in; want := strings.ToUpper(in); _ = want; _answer(want);`,
		`TestInPlace: list := []int{3, 1}; _ = list; Sort(list); _answer(list); =[1,3]`,
	}
	slices.Sort(asked)
	slices.Sort(want)
	if got, want := strings.Join(asked, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := []string{"TestRows", "TestStack", "TestComputed", "TestInPlace"}; !slices.Equal(altered[0].Answerable, want) {
		t.Errorf("answerable are %s, want %s", altered[0].Answerable, want)
	}
	if first := altered[0].Questions[0].Program; !strings.Contains(first, "\ntype row struct {") {
		t.Errorf("the type of the rows is not declared:\n%s", first)
	}
	if text, err := GoQuestions(altered[0].Questions); err != nil || !strings.Contains(text, "func _question7(t *testing.T)") {
		t.Errorf("%v\n%s", err, text)
	}
}
