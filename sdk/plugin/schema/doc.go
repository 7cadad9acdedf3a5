// Package schema describes the config of a plugin: the arguments, their types and
// bounds. A Go plugin declares its config as a struct with tags; the schema, the
// validation, the decoding and the documentation are derived from it at run time,
// without generated code.
//
//	type Config struct {
//		Command []string      `stepfall:"command,required" doc:"Program and its arguments."`
//		Timeout time.Duration `stepfall:"timeout,min=1,max=600,default=20s" doc:"Longest run."`
//		Mode    string        `stepfall:"mode,enum=fast|thorough,default=fast"`
//		Token   string        `stepfall:"token,sensitive"`
//		Limits  *Limits       `stepfall:"limits"`
//	}
//
// # Types
//
// string, number, integer, bool, duration (a string such as "1m30s" or a number
// of seconds), object (with fields of its own), any, list(T), map(T). Values have
// JSON's types: string, float64, bool, nil, []any, map[string]any.
//
// # Tags
//
// The first word is the name. After it: required; sensitive (never shown);
// min= and max= (of numbers, of seconds, or of the length of lists and strings);
// enum= (values separated by |); deprecated= (a warning); default= (the rest of
// the tag, a JSON value or a plain word). The tag doc holds Markdown.
package schema
