package schema

import "github.com/go-viper/mapstructure/v2"

// Decode checks config against the tags of the struct that into points to, and
// fills it, defaults included. It returns all diagnostics, warnings too; into is
// changed only if there are no errors.
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
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName: tagName, Result: &v, DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
		MatchName: func(key, field string) bool { return key == field },
	})
	if err == nil {
		err = decoder.Decode(checked)
	}
	if err != nil {
		return append(ds, Errorf(nil, "%v", err)...)
	}
	*into = v
	return ds
}
