package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Decode checks config against the tags of the struct that into points to and
// fills it, defaults included. It returns all that is wrong, warnings too; into
// is filled only when there are no errors.
func Decode[T any](config map[string]any, into *T) Diagnostics {
	s, err := For[T]()
	if err != nil {
		return Errorf(nil, "%v", err)
	}
	checked, ds := s.Check(config)
	if ds.HasErrors() {
		return ds
	}
	var v T
	if more := assignStruct(reflect.ValueOf(&v).Elem(), checked, nil); len(more) > 0 {
		return append(ds, more...)
	}
	*into = v
	return ds
}

func assignStruct(dst reflect.Value, config map[string]any, path []string) Diagnostics {
	var ds Diagnostics
	for sf, field := range dst.Fields() {
		tag, ok := sf.Tag.Lookup(tagName)
		if !ok || tag == "-" {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		if v, ok := config[name]; ok {
			ds = append(ds, assign(field, v, append(slices.Clip(path), name))...)
		}
	}
	return ds
}

// assign puts a checked value into dst. What the check cannot see is the range
// of small integer types.
func assign(dst reflect.Value, v any, path []string) Diagnostics {
	if dst.Kind() == reflect.Pointer {
		p := reflect.New(dst.Type().Elem())
		ds := assign(p.Elem(), v, path)
		dst.Set(p)
		return ds
	}
	if dst.Type() == durationType {
		text, _ := v.(string)
		d, err := time.ParseDuration(text)
		if err != nil {
			return Errorf(path, "%v", err)
		}
		dst.SetInt(int64(d))
		return nil
	}
	switch dst.Kind() {
	case reflect.Interface:
		if v != nil {
			dst.Set(reflect.ValueOf(v))
		}
		return nil
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return mismatch(dst, v, path)
		}
		out := reflect.MakeSlice(dst.Type(), len(list), len(list))
		var ds Diagnostics
		for i, e := range list {
			ds = append(ds, assign(out.Index(i), e, append(slices.Clip(path), strconv.Itoa(i)))...)
		}
		dst.Set(out)
		return ds
	case reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return mismatch(dst, v, path)
		}
		out := reflect.MakeMapWithSize(dst.Type(), len(m))
		var ds Diagnostics
		for k, e := range m {
			elem := reflect.New(dst.Type().Elem()).Elem()
			ds = append(ds, assign(elem, e, append(slices.Clip(path), k))...)
			out.SetMapIndex(reflect.ValueOf(k).Convert(dst.Type().Key()), elem)
		}
		dst.Set(out)
		return ds
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return mismatch(dst, v, path)
		}
		return assignStruct(dst, m, path)
	}
	return assignScalar(dst, v, path)
}

func assignScalar(dst reflect.Value, v any, path []string) Diagnostics {
	switch v := v.(type) {
	case string:
		if dst.Kind() == reflect.String {
			dst.SetString(v)
			return nil
		}
	case bool:
		if dst.Kind() == reflect.Bool {
			dst.SetBool(v)
			return nil
		}
	case float64:
		switch {
		case dst.CanFloat():
			dst.SetFloat(v)
			return nil
		case dst.CanInt() && !dst.OverflowInt(int64(v)):
			dst.SetInt(int64(v))
			return nil
		case dst.CanUint() && v >= 0 && !dst.OverflowUint(uint64(v)):
			dst.SetUint(uint64(v))
			return nil
		}
	}
	return mismatch(dst, v, path)
}

func mismatch(dst reflect.Value, v any, path []string) Diagnostics {
	return Errorf(path, "%s does not fit into %s", fmt.Sprintf("%v", v), dst.Type())
}
