package cli

import (
	"strings"

	"github.com/hashicorp/go-hclog"
)

// logFlag is the value of --log: a level, and whether lines are JSON.
type logFlag struct {
	level hclog.Level
	json  bool
	text  string
}

// Set parses words such as "debug" and "info,json".
func (f *logFlag) Set(text string) error {
	f.text = text
	for word := range strings.SplitSeq(text, ",") {
		if level := hclog.LevelFromString(word); level != hclog.NoLevel {
			f.level = level
		} else if f.json = word == "json"; !f.json {
			return usage("want off, debug, info, warn or error, and json for lines of JSON, such as debug,json")
		}
	}
	return nil
}

func (f *logFlag) String() string { return f.text }

// Type returns the name of the value in the help.
func (*logFlag) Type() string { return "level" }

// logger returns a logger to standard error at the level of --log, or else at the given one.
func (s Streams) logger(name string, level hclog.Level) hclog.Logger {
	o := s.logOptions(level)
	o.Name = name
	return hclog.New(o)
}

func (s Streams) logOptions(level hclog.Level) *hclog.LoggerOptions {
	o := &hclog.LoggerOptions{Name: "stepfall", Output: s.Err, Level: level}
	if s.log != nil {
		o.JSONFormat = s.log.json
		if s.log.level != hclog.NoLevel {
			o.Level = s.log.level
		}
	}
	return o
}
