package policies

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kind is the type of an argument from an operator's point of view.
type kind int

const (
	kindText kind = iota
	kindWhole
	kindNumber
	kindBool
	kindDuration
	kindSize
	kindTexts
	kindNumbers
	kindMap
	kindSecret
)

var kindNames = [...]string{
	kindText: "string", kindWhole: "whole number", kindNumber: "number", kindBool: "true or false",
	kindDuration: "duration", kindSize: "size", kindTexts: "list of strings",
	kindNumbers: "number or list of numbers", kindMap: "map of strings", kindSecret: `env("NAME")`,
}

func (k kind) String() string { return kindNames[k] }

func (k kind) article() string {
	if k == kindBool || k == kindSecret {
		return k.String()
	}
	return "a " + k.String()
}

type argument struct {
	name     string
	field    int
	goName   string
	kind     kind
	required bool
	fallback string
	oneOf    []string
	// kinds are the labels of the blocks in which the argument has a meaning; nil means all.
	kinds           []string
	min, max, above *float64
}

type block struct {
	name  string
	field int
	typ   reflect.Type
	// label is the index of the field with the block's label, or -1; labels are the permitted labels if they
	// are a closed set.
	label  int
	labels []string
	// many means that there can be blocks with different labels; pointer means that the field is a pointer, nil
	// if the block is absent.
	many, pointer, required bool
	args                    []argument
	blocks                  []*block
	// free means that the block can hold anything, as a plugin's config can.
	free bool
}

func (b *block) arg(name string) *argument {
	if i := slices.IndexFunc(b.args, func(a argument) bool { return a.name == name }); i >= 0 {
		return &b.args[i]
	}
	return nil
}

func (b *block) block(name string) *block {
	if b == nil || b.free {
		return &block{name: name, label: -1, free: true}
	}
	if i := slices.IndexFunc(b.blocks, func(sub *block) bool { return sub.name == name }); i >= 0 {
		return b.blocks[i]
	}
	return nil
}

func (b *block) argNames() []string {
	return namesOf(b.args, func(a argument) string { return a.name })
}

// argNamesOf returns the arguments that apply to a block with the given label, or all if it is "".
func (b *block) argNamesOf(label string) (names []string) {
	for i := range b.args {
		if label == "" || b.args[i].applies(label) {
			names = append(names, b.args[i].name)
		}
	}
	return names
}

func (b *block) blockNames() []string {
	return namesOf(b.blocks, func(sub *block) string { return sub.name })
}

// language returns the description of the policy language, derived from the structs.
var language = sync.OnceValue(func() *block {
	root := &block{typ: reflect.TypeFor[Policy](), label: -1}
	root.describe()
	return root
})

func (b *block) describe() {
	if b.typ == reflect.TypeFor[Config]() {
		b.free = true
		return
	}
	for i := range b.typ.NumField() {
		f := b.typ.Field(i)
		tag, ok := f.Tag.Lookup("policy")
		if !ok {
			continue
		}
		name, what, _ := strings.Cut(tag, ",")
		switch what {
		case "label":
			b.label = i
			b.labels = strings.Fields(f.Tag.Get("oneof"))
		case "block":
			sub := &block{name: name, field: i, typ: f.Type, label: -1, required: f.Tag.Get("required") != ""}
			switch f.Type.Kind() {
			case reflect.Slice:
				sub.many, sub.typ = true, f.Type.Elem()
			case reflect.Pointer:
				sub.pointer, sub.typ = true, f.Type.Elem()
			default:
			}
			sub.describe()
			b.blocks = append(b.blocks, sub)
		default:
			b.args = append(b.args, describeArgument(name, i, f))
		}
	}
}

func describeArgument(name string, index int, f reflect.StructField) argument {
	a := argument{
		name: name, field: index, goName: f.Name, kind: kindOf(f.Type),
		required: f.Tag.Get("required") != "", fallback: f.Tag.Get("default"),
		oneOf: strings.Fields(f.Tag.Get("oneof")), kinds: strings.Fields(f.Tag.Get("kinds")),
	}
	for tag, to := range map[string]**float64{"min": &a.min, "max": &a.max, "above": &a.above} {
		if text := f.Tag.Get(tag); text != "" {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic("policies: tag " + tag + " of " + f.Name + ": " + err.Error())
			}
			*to = &v
		}
	}
	return a
}

func kindOf(t reflect.Type) kind {
	own, isOwn := typeKinds[t]
	basic, isBasic := basicKinds[t.Kind()]
	switch {
	case isOwn:
		return own
	case isBasic:
		return basic
	}
	panic("policies: no kind for the type " + t.String())
}

var (
	typeKinds = map[reflect.Type]kind{
		reflect.TypeFor[time.Duration](): kindDuration, reflect.TypeFor[Bytes](): kindSize, reflect.TypeFor[Secret](): kindSecret,
		reflect.TypeFor[[]string](): kindTexts, reflect.TypeFor[[]float64](): kindNumbers, reflect.TypeFor[map[string]string](): kindMap,
		reflect.TypeFor[*float64](): kindNumber, reflect.TypeFor[*bool](): kindBool,
	}
	basicKinds = map[reflect.Kind]kind{reflect.String: kindText, reflect.Int: kindWhole, reflect.Float64: kindNumber, reflect.Bool: kindBool}
)

func (a *argument) applies(label string) bool {
	return len(a.kinds) == 0 || slices.Contains(a.kinds, label)
}
