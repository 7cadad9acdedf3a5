package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

const tagName = "stepfall"

var durationType = reflect.TypeFor[time.Duration]()

// For returns the schema of the struct type T, read from its tags. Fields without a tag are not
// arguments. It fails on an unsupported type or an invalid tag.
func For[T any]() (*Schema, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("config type %s is not a struct", t)
	}
	fields, err := fieldsOf(t, nil)
	if err != nil {
		return nil, fmt.Errorf("config type %s: %w", t, err)
	}
	return &Schema{Fields: fields}, nil
}

func fieldsOf(t reflect.Type, outer []reflect.Type) ([]Field, error) {
	if slices.Contains(outer, t) {
		return nil, fmt.Errorf("%s contains itself", t)
	}
	outer = append(outer, t)
	fields := []Field{}
	for sf := range t.Fields() {
		tag, ok := sf.Tag.Lookup(tagName)
		if !ok || tag == "-" {
			continue
		}
		if !sf.IsExported() {
			return nil, fmt.Errorf("field %s has a tag and is not exported", sf.Name)
		}
		f, err := fieldOf(sf, tag, outer)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", sf.Name, err)
		}
		if slices.Contains(fieldNames(fields), f.Name) {
			return nil, fmt.Errorf("two fields are named %q", f.Name)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func fieldOf(sf reflect.StructField, tag string, outer []reflect.Type) (Field, error) {
	f := Field{Doc: sf.Tag.Get("doc")}
	var err error
	if f.Type, f.Fields, err = typeOf(sf.Type, outer); err != nil {
		return f, err
	}
	name, rest, _ := strings.Cut(tag, ",")
	if name == "" {
		return f, fmt.Errorf("tag %q has no name", tag)
	}
	f.Name = name
	for rest != "" {
		var option string
		if strings.HasPrefix(rest, "default=") {
			option, rest = rest, ""
		} else {
			option, rest, _ = strings.Cut(rest, ",")
		}
		if err := f.set(option); err != nil {
			return f, err
		}
	}
	if f.Required && f.Default != nil {
		return f, fmt.Errorf("%q is required and has a default", f.Name)
	}
	if f.Default != nil {
		if _, ds := f.check(f.Default, nil); ds.HasErrors() {
			return f, fmt.Errorf("the default breaks the rules: %w", ds)
		}
	}
	return f, nil
}

func (f *Field) set(option string) error {
	key, value, _ := strings.Cut(option, "=")
	switch key {
	case "required":
		f.Required = true
	case "sensitive":
		f.Sensitive = true
	case "deprecated":
		f.Deprecated = value
	case "min", "max":
		x, err := strconv.ParseFloat(value, 64)
		if err != nil && f.Type == "duration" {
			var d time.Duration
			d, err = time.ParseDuration(value)
			x = d.Seconds()
		}
		if err != nil {
			return fmt.Errorf("%s=%q is not a number", key, value)
		}
		if key == "min" {
			f.Min = &x
		} else {
			f.Max = &x
		}
	case "enum":
		for word := range strings.SplitSeq(value, "|") {
			elem, ok := elementType(f.Type, "list(")
			if !ok {
				elem = f.Type
			}
			f.Enum = append(f.Enum, parseWord(word, elem))
		}
	case "default":
		f.Default = parseWord(value, f.Type)
	default:
		return fmt.Errorf("unknown tag option %q", option)
	}
	return nil
}

// parseWord parses a value in a tag: text if typ is text, otherwise JSON. A word that is not valid
// JSON stays a string and fails the type check.
func parseWord(word, typ string) any {
	if typ == "string" || typ == "duration" {
		return word
	}
	var v any
	if json.Unmarshal([]byte(word), &v) != nil {
		return word
	}
	return v
}

func typeOf(t reflect.Type, outer []reflect.Type) (string, []Field, error) {
	if t == durationType {
		return "duration", nil, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem(), outer)
	case reflect.String:
		return "string", nil, nil
	case reflect.Bool:
		return "bool", nil, nil
	case reflect.Int, reflect.Int64:
		return "integer", nil, nil
	case reflect.Float64:
		return "number", nil, nil
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return "any", nil, nil
		}
	case reflect.Struct:
		fields, err := fieldsOf(t, outer)
		return "object", fields, err
	case reflect.Slice:
		elem, fields, err := typeOf(t.Elem(), outer)
		return "list(" + elem + ")", fields, err
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			elem, fields, err := typeOf(t.Elem(), outer)
			return "map(" + elem + ")", fields, err
		}
	}
	return "", nil, fmt.Errorf("type %s has no place in a config", t)
}
