package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
)

// orderedObject is a JSON object that keeps the order of its members: models fill in the properties of a
// schema in order, for instance a reason before a conclusion.
type orderedObject struct {
	names  []string
	values map[string]any
}

// get returns a member, or nil. o can be nil.
func (o *orderedObject) get(name string) any {
	if o == nil {
		return nil
	}
	return o.values[name]
}

func (o *orderedObject) has(name string) bool {
	if o == nil {
		return false
	}
	_, ok := o.values[name]
	return ok
}

// object returns a member that is an object, or else nil.
func (o *orderedObject) object(name string) *orderedObject {
	inner, _ := o.get(name).(*orderedObject)
	return inner
}

func (o *orderedObject) set(name string, v any) {
	if !o.has(name) {
		o.names = append(o.names, name)
	}
	o.values[name] = v
}

func (o *orderedObject) remove(name string) {
	if o.has(name) {
		delete(o.values, name)
		o.names = slices.DeleteFunc(o.names, func(own string) bool { return own == name })
	}
}

// rename renames a member without changing its position.
func (o *orderedObject) rename(from, to string) {
	v := o.get(from)
	o.remove(to)
	o.names[slices.Index(o.names, from)] = to
	delete(o.values, from)
	o.values[to] = v
}

// addMissing adds the members of another object that o lacks.
func (o *orderedObject) addMissing(from *orderedObject) {
	if from == nil {
		return
	}
	for _, name := range from.names {
		if !o.has(name) {
			o.set(name, from.get(name))
		}
	}
}

// MarshalJSON implements [json.Marshaler].
func (o *orderedObject) MarshalJSON() ([]byte, error) { return appendOrdered(nil, o) }

// appendOrdered writes nested objects into one buffer: an encoder would copy each level once more.
func appendOrdered(buf []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case *orderedObject:
		buf = append(buf, '{')
		for _, name := range v.names {
			if buf, err = appendOrdered(append(appendString(appendComma(buf), name), ':'), v.values[name]); err != nil {
				return nil, err
			}
		}
		return append(buf, '}'), nil
	case []any:
		buf = append(buf, '[')
		for _, one := range v {
			if buf, err = appendOrdered(appendComma(buf), one); err != nil {
				return nil, err
			}
		}
		return append(buf, ']'), nil
	}
	value, err := encode(v)
	return append(buf, value...), err
}

// decode returns a value as decoded from its JSON, with objects as *orderedObject and numbers as json.Number.
func decode(v any) any {
	d := json.NewDecoder(bytes.NewReader(rawJSON(v)))
	d.UseNumber()
	return decodeNext(d)
}

// decodeNext reads a value of valid JSON.
func decodeNext(d *json.Decoder) any {
	t, _ := d.Token()
	switch t {
	case json.Delim('{'):
		o := &orderedObject{values: map[string]any{}}
		for d.More() {
			name, _ := d.Token()
			text, _ := name.(string)
			o.set(text, decodeNext(d))
		}
		_, _ = d.Token()
		return o
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, decodeNext(d))
		}
		_, _ = d.Token()
		return list
	}
	return t
}

// merge adds to a value the members and elements that it lacks from another value, at every depth.
func merge(to, from any) any {
	switch from := from.(type) {
	case *orderedObject:
		if own, ok := to.(*orderedObject); ok {
			for _, name := range from.names {
				own.set(name, merge(own.get(name), from.get(name)))
			}
		}
	case []any:
		if own, ok := to.([]any); ok {
			for i, v := range from[:min(len(own), len(from))] {
				own[i] = merge(own[i], v)
			}
			return append(own, from[min(len(own), len(from)):]...)
		}
	}
	if to == nil {
		return from
	}
	return to
}
