package process

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk/redact"
)

const (
	// maxLine is the length in bytes at which a log line is truncated.
	maxLine = 16 << 10
	// maxLinesPerSecond limits a plugin's log; further lines are dropped and counted.
	maxLinesPerSecond = 500
	// maxBytesPerSecond limits the total length of these lines.
	maxBytesPerSecond = 256 << 10
	// tailLines is the number of last lines kept for a [StartError].
	tailLines = 12
)

// logSink writes the output lines of one process to a log. It is safe for concurrent use.
type logSink struct {
	log hclog.Logger

	mu      sync.Mutex
	secrets []string
	redact  *redact.Redactor
	second  time.Time
	lines   int
	bytes   int
	dropped int
	inTrace bool
	tail    []string
}

func newLogSink(log hclog.Logger, secrets []string) *logSink {
	s := &logSink{log: cmp.Or(log, hclog.NewNullLogger())}
	s.addSecrets(secrets)
	return s
}

// addSecrets returns the redactor of these secrets and those added before.
func (s *logSink) addSecrets(secrets []string) *redact.Redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.secrets)
	for _, secret := range secrets {
		if !slices.Contains(s.secrets, secret) {
			s.secrets = append(s.secrets, secret)
		}
	}
	if s.redact == nil || len(s.secrets) > before { // making one takes milliseconds
		s.redact = redact.New(s.secrets...)
	}
	return s.redact
}

// cleanText is clean for callers that do not hold s.mu.
func (s *logSink) cleanText(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clean(text)
}

// clean redacts secrets in text and escapes control characters, which could otherwise drive a
// terminal or forge log lines. s.mu is held.
func (s *logSink) clean(text string) string {
	return redact.Visible(s.redact.Known(text))
}

func (s *logSink) admitLine(bytes int) bool {
	now := time.Now()
	if now.Sub(s.second) >= time.Second {
		if s.dropped > 0 {
			s.log.Warn("plugin logged too much", "dropped_lines", s.dropped)
		}
		s.second, s.lines, s.bytes, s.dropped = now, 0, 0, 0
	}
	s.lines++
	s.bytes += bytes
	if s.lines > maxLinesPerSecond || s.bytes > maxBytesPerSecond {
		s.dropped++
		return false
	}
	return true
}

// addLine logs one line of the plugin's standard error or, if label is not empty, of another output.
// cut is true if the line was truncated.
func (s *logSink) addLine(raw, label string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cut {
		raw = s.redact.Cut(raw)
	}
	if strings.TrimSpace(raw) == "" || !s.admitLine(len(raw)) {
		return
	}
	if label != "" {
		text := s.clean(raw)
		s.keepTail(label + ": " + text)
		s.log.Debug(text, "from", label)
		return
	}
	var entry map[string]any // in hclog's JSON format
	if strings.HasPrefix(raw, "{") && json.Unmarshal([]byte(raw), &entry) == nil && entry["@message"] != nil {
		s.addEntry(entry)
		return
	}
	text := s.clean(raw)
	s.keepTail(text)
	s.log.Log(s.levelOf(raw), text)
}

func (s *logSink) keepTail(text string) {
	const enough = 300
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	s.tail = append(s.tail, text)
	s.tail = s.tail[max(0, len(s.tail)-tailLines):]
}

// levelOf guesses the level of a line that is not a structured entry. All lines after the start of a
// panic or traceback belong to it.
func (s *logSink) levelOf(line string) hclog.Level {
	if name, _, ok := strings.Cut(strings.TrimPrefix(line, "["), "]"); ok && line[0] == '[' && strings.ToUpper(name) == name {
		if level := hclog.LevelFromString(name); level != hclog.NoLevel && level != hclog.Off {
			return level
		}
	}
	begins := func(start string) bool { return strings.HasPrefix(line, start) }
	s.inTrace = s.inTrace || slices.ContainsFunc([]string{"panic: ", "fatal error: ", "Traceback (most recent call last)"}, begins)
	if s.inTrace {
		return hclog.Error
	}
	return hclog.Debug
}

func (s *logSink) addEntry(entry map[string]any) {
	s.inTrace = false
	level := hclog.Info
	if name, ok := entry["@level"].(string); ok {
		if l := hclog.LevelFromString(name); l != hclog.NoLevel && l != hclog.Off {
			level = l
		}
	}
	message := s.clean(fmt.Sprint(entry["@message"]))
	var args []any
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		if !strings.HasPrefix(key, "@") {
			args = append(args, s.clean(key), s.cleanValue(entry[key]))
		}
	}
	if level >= hclog.Warn {
		s.keepTail(message)
	}
	s.log.Log(level, message, args...)
}

func (s *logSink) cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return s.clean(v)
	case float64, bool, nil:
		return v
	}
	data, err := json.Marshal(s.removeSecrets(v))
	if err != nil {
		return s.clean(fmt.Sprint(v))
	}
	return s.clean(string(data))
}

// removeSecrets redacts v before JSON escapes characters of a secret.
func (s *logSink) removeSecrets(v any) any {
	switch v := v.(type) {
	case string:
		return s.redact.Known(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = s.removeSecrets(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[s.redact.Known(k)] = s.removeSecrets(e)
		}
		return out
	}
	return v
}

func (s *logSink) lastLines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tail)
}

// pump calls take with each line of r until r ends or its read deadline passes.
func pump(r io.Reader, take func(line string, cut bool)) {
	br := bufio.NewReaderSize(r, maxLine)
	cut := false
	for {
		line, more, err := br.ReadLine()
		if err != nil {
			return
		}
		if !cut {
			take(strings.ToValidUTF8(string(line), "\uFFFD"), more)
		}
		cut = more // skip the rest of a truncated line
	}
}

// writer returns a writer that logs complete lines. An unfinished last line is not logged.
func (s *logSink) writer(label string) *lineWriter { return &lineWriter{sink: s, label: label} }

type lineWriter struct {
	sink  *logSink
	label string
	mu    sync.Mutex
	buf   []byte
}

// Write splits a line that is too long into several, never inside a secret.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p...)
	for {
		end := slices.Index(w.buf, '\n')
		switch {
		case end >= 0 && end <= maxLine:
			w.logLine(w.buf[:end])
			w.buf = append(w.buf[:0], w.buf[end+1:]...)
		case end < 0 && len(w.buf) < maxLine:
			return len(p), nil
		default:
			piece, kept := w.sink.split(string(w.buf[:maxLine]))
			if piece == "" {
				piece, kept = kept, ""
			}
			w.logLine([]byte(piece))
			w.buf = append([]byte(kept), w.buf[maxLine:]...)
		}
	}
}

func (w *lineWriter) logLine(line []byte) {
	w.sink.addLine(strings.ToValidUTF8(string(line), "\uFFFD"), w.label, false)
}

// split cuts text at a position outside any secret.
func (s *logSink) split(text string) (piece, rest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redact.Split(text)
}

var errStarting = errors.New("plugin did not start")
