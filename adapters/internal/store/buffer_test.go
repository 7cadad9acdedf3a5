package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// traces is a store that can be unavailable.
type traces struct {
	store.Traces
	mu    sync.Mutex
	away  bool
	have  map[string]string // keys by id
	times map[string]int    // how often each was written; may be nil
}

func (s *traces) Record(_ context.Context, list []store.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("the store is away")
	}
	for _, e := range list {
		s.have[e.Trace.ID] = e.Key
		if s.times != nil {
			s.times[e.Trace.ID]++
		}
	}
	return nil
}

func (s *traces) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *traces) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.have)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Traces that are waiting when a process ends are written by the next one.
func TestTracesOutliveTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := &traces{away: true, have: map[string]string{}}
	first := store.NewBuffer(s, store.BufferOptions{Spool: dir, Wait: time.Millisecond})
	ctx := store.WithKey(t.Context(), &store.Key{ID: "k1"})
	for i := range 7 {
		first.Record(ctx, &sdk.Trace{ID: fmt.Sprint(i), CostUSD: 0.25})
	}
	// All of it is in the file before Record returns; nothing more is done by a kill.
	left := files(t, dir)
	if len(left) != 1 {
		t.Fatalf("files %v", left)
	}
	if info, err := os.Stat(left[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v %v", info.Mode(), err)
	}
	// As long as its process lives nobody takes it.
	other := store.NewBuffer(&traces{have: map[string]string{}}, store.BufferOptions{Spool: dir})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if now := files(t, dir); !slices.Equal(now, left) {
		t.Fatalf("a file in use was taken: %v", now)
	}
	if err := first.Close(); err == nil {
		t.Error("Close did not say that traces wait")
	}
	// Half a line, as a kill leaves it.
	f, err := os.OpenFile(left[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"key":"k1","trace":{"id":"ha`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s.set(false)
	second := store.NewBuffer(s, store.BufferOptions{Spool: dir, Batch: 3})
	eventually(t, "what was left is not written", func() bool { return s.count() == 7 && len(files(t, dir)) == 0 })
	if s.have["3"] != "k1" {
		t.Errorf("keys are lost: %v", s.have)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// A minute's outage loses nothing: what exceeds memory waits in the spool, and all traces are in the store exactly
// once shortly after it recovers. What exceeds the spool is counted and reported.
func TestAnOutageLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, outage = 200, 60
		s := &traces{have: map[string]string{}, times: map[string]int{}}
		b := store.NewBuffer(s, store.BufferOptions{Spool: filepath.Join(t.TempDir(), "spool"), Size: 1000})
		record := func(n int) {
			b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(n), Prompt: strings.Repeat("x", 200)})
		}
		for n := range perSecond * (outage + 2) {
			switch n {
			case perSecond:
				s.set(true)
			case perSecond * (outage + 1):
				s.set(false)
			}
			record(n)
			time.Sleep(time.Second / perSecond)
		}
		time.Sleep(15 * time.Second)
		s.mu.Lock()
		for n := range perSecond * (outage + 2) {
			if got := s.times[fmt.Sprint(n)]; got != 1 {
				t.Errorf("trace %d was written %d times", n, got)
			}
		}
		s.mu.Unlock()
		if written, waiting, dropped := b.Counts(); written != perSecond*(outage+2) || waiting != 0 || dropped != 0 {
			t.Errorf("%d written, %d wait, %d dropped", written, waiting, dropped)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsBeyondTheSpoolIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		dir := filepath.Join(t.TempDir(), "spool")
		b := store.NewBuffer(&traces{away: true, have: map[string]string{}}, store.BufferOptions{
			Spool: dir, Size: 1, SpoolBytes: 20 << 20, Fault: func(err error, dropped int64) { told = append(told, fmt.Sprint(err, " ", dropped)) },
		})
		for n := range 60 {
			b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(n), Prompt: strings.Repeat("x", 1<<19)})
		}
		_, _, dropped := b.Counts()
		size := int64(0)
		for _, file := range files(t, dir) {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if dropped < 20 || dropped > 30 || size > 20<<20 {
			t.Errorf("%d dropped, %d bytes in the spool", dropped, size)
		}
		if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "traces are dropped: the buffer is full") }) {
			t.Errorf("told %q", told)
		}
		if err := b.Close(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(dropped, " traces were dropped")) {
			t.Errorf("closing: %v", err)
		}
	})
}

// A trace of many megabytes is truncated at its longest texts, with a mark.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("\x01é", 8<<20/3)
	given := &sdk.Trace{ID: "a", Prompt: long, Calls: []sdk.Call{{Answer: "short"}, {Answer: long, Verdict: &sdk.Verdict{Evidence: "seen"}}}}
	body, err := store.Encode(given)
	if err != nil || len(body) > store.RowBytes || len(body) < store.RowBytes/16 {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	var got sdk.Trace
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if got.Calls[0].Answer != "short" || got.Calls[1].Verdict.Evidence != "seen" || !strings.HasPrefix(long, got.Prompt[:1000]) {
		t.Error("more was cut than need be")
	}
	for _, text := range []string{got.Prompt, got.Calls[1].Answer} {
		if mark := fmt.Sprintf("of %d bytes]", len(long)); !strings.HasSuffix(text, mark) {
			t.Errorf("no mark at the end: %q", text[len(text)-60:])
		}
	}
	if given.Prompt != long || given.Calls[1].Answer != long {
		t.Error("the trace was changed")
	}
}

// Long texts and lists of names from clients never cause a trace to be left out.
func TestLongVerdictsAndListsAreCut(t *testing.T) {
	long := strings.Repeat("e", 3<<20)
	names := strings.SplitAfter(strings.Repeat("a name that a client made up\n", 80_000), "\n")
	for what, given := range map[string]*sdk.Trace{
		"evidence": {ID: "a", Run: "r", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Failed, Evidence: long}},
		"not sent": {ID: "a", Calls: []sdk.Call{{NotSent: names}}},
		"tools":    {ID: "a", Tools: names, Calls: []sdk.Call{{Tools: names}}},
	} {
		body, err := store.Encode(given)
		var got sdk.Trace
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil || len(body) > store.RowBytes || got.ID != "a" {
			t.Errorf("%s: %d bytes, %v", what, len(body), err)
		}
		if what == "evidence" && err == nil && (got.Verdict.Outcome != sdk.Failed || !strings.HasSuffix(got.Verdict.Evidence, "of 3145728 bytes]") || given.Verdict.Evidence != long) {
			t.Errorf("%s: %d bytes of evidence, which end in %q", what, len(got.Verdict.Evidence), got.Verdict.Evidence[len(got.Verdict.Evidence)-60:])
		}
	}
}

// The spool files of a running process shrink once the store has their traces.
func TestASpoolIsEmptiedWhenTheStoreIsBack(t *testing.T) {
	dir := t.TempDir()
	s := &traces{away: true, have: map[string]string{}}
	b := store.NewBuffer(s, store.BufferOptions{Spool: dir, Wait: time.Millisecond})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() { b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(i)}) })
	}
	all.Wait()
	s.set(false)
	eventually(t, "traces are not written", func() bool { return s.count() == 200 })
	eventually(t, "the file was not emptied", func() bool {
		info, err := os.Stat(files(t, dir)[0])
		return err == nil && info.Size() == 0
	})
	// It is used again.
	s.set(true)
	for i := range 3 {
		b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint("again", i)})
	}
	s.set(false)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if s.count() != 203 || len(files(t, dir)) != 0 {
		t.Errorf("%d traces, files %v", s.count(), files(t, dir))
	}
}

// An unwritable folder is reported once; traces then wait in memory.
func TestWhatWasRecordedIsSettled(t *testing.T) {
	s := &traces{have: map[string]string{}}
	b := store.NewBuffer(s, store.BufferOptions{Spool: t.TempDir()})
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 2000 {
		b.Record(ctx, &sdk.Trace{ID: fmt.Sprint(i)})
	}
	eventually(t, "traces that were settled are not there", func() bool {
		b.Settle(ctx)
		return s.count() == 2000
	})
	s.set(true)
	b.Record(ctx, &sdk.Trace{ID: "away"})
	cancel()
	b.Settle(ctx) // it does not wait for ever
	s.set(false)
}

func TestASpoolThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &traces{away: true, have: map[string]string{}}
	var mu sync.Mutex
	told := 0
	b := store.NewBuffer(s, store.BufferOptions{Spool: filepath.Join(dir, "spool"), Wait: -1, Fault: func(err error, _ int64) {
		mu.Lock()
		defer mu.Unlock()
		if err.Error() != "the store is away" {
			told++
		}
	}})
	for i := range 50 {
		b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(i)})
	}
	s.set(false)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if s.count() != 50 {
		t.Errorf("%d traces", s.count())
	}
	if told == 0 || told > 3 {
		t.Errorf("told %d times", told)
	}
}

// picky rejects traces by the prefix of their ids, and batches of more than two with a timeout.
type picky struct {
	traces
	most int
}

func (s *picky) Record(ctx context.Context, list []store.Entry) error {
	if s.most > 0 && len(list) > s.most {
		return context.DeadlineExceeded
	}
	var out store.LeftOutError
	for i, e := range list {
		if strings.HasPrefix(e.Trace.ID, "bad") {
			out.Reasons = append(out.Reasons, fmt.Errorf("trace %s: no", e.Trace.ID))
			continue
		}
		if err := s.traces.Record(ctx, list[i:i+1]); err != nil {
			return err
		}
	}
	if len(out.Reasons) > 0 {
		return &out
	}
	return nil
}

// A trace that can never be written blocks no other, and is reported and counted once.
func TestATraceThatCannotBeWrittenIsLeftOut(t *testing.T) {
	s := &picky{traces: traces{away: true, have: map[string]string{}}}
	var mu sync.Mutex
	told := 0
	b := store.NewBuffer(s, store.BufferOptions{Wait: -1, Fault: func(err error, dropped int64) {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := errors.AsType[*store.LeftOutError](err); ok && dropped == 2 && strings.Contains(err.Error(), "bad1") {
			told++
		}
	}})
	for _, id := range []string{"a", "bad1", "b", "bad2", "c"} {
		b.Record(t.Context(), &sdk.Trace{ID: id})
	}
	s.set(false)
	eventually(t, "the rest is not written", func() bool {
		written, waiting, dropped := b.Counts()
		return written == 3 && waiting == 0 && dropped == 2
	})
	if err := b.Close(); err == nil {
		t.Error("Close does not say that traces are lost")
	}
	if s.count() != 3 || told != 1 {
		t.Errorf("%d are there, told %d times", s.count(), told)
	}
}

// A batch that is too large for the store is split.
func TestABatchThatTakesTooLong(t *testing.T) {
	t.Parallel()
	s := &picky{traces: traces{have: map[string]string{}}, most: 3}
	b := store.NewBuffer(s, store.BufferOptions{Wait: -1, Batch: 4})
	for i := range 6 {
		b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(i)})
	}
	eventually(t, "the batch is tried for ever", func() bool { return s.count() == 6 })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// Waiting traces are bounded by size too.
func TestLargeTracesThatWait(t *testing.T) {
	t.Parallel()
	s := &traces{away: true, have: map[string]string{}}
	b := store.NewBuffer(s, store.BufferOptions{Wait: -1})
	answer := strings.Repeat("x", 64<<20)
	for i := range 10 {
		b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(i), Calls: []sdk.Call{{Answer: answer}}})
	}
	if _, waiting, dropped := b.Counts(); waiting != 4 || dropped != 6 {
		t.Errorf("%d wait, %d were dropped", waiting, dropped)
	}
	s.set(false)
	if err := b.Close(); err == nil {
		t.Error("Close does not say that traces are lost")
	}
}

// Whatever the folder contains, valid traces are saved and the rest is reported.
func TestASpoolFullOfJunk(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0.traces.jsonl", "{\"key\":1}\nnull\n\x00\x00\x00\n{\"trace\":{\"id\":\"first\"}}\n{\"trace\":{\"id\":7}}\n{\"trace\":{\"id\":\"second\",\"new\":[1]}}")
	write("1.traces.jsonl", "{\"trace\":{\"id\":\"bad\"}}\n{\"trace\":{\"id\":\"third\"}}\n{\"tr")
	write("2.traces.jsonl", "")
	write("9.traces.jsonl", "{\"trace\":{\"id\":\"last\"}}\n")
	write("outside", "{\"trace\":{\"id\":\"outside\"}}\n")
	if err := os.Mkdir(filepath.Join(dir, "3.traces.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	linked := os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, "4.traces.jsonl")) == nil
	// Another user's, unless the test is root's.
	write("6.traces.jsonl", "{\"trace\":{\"id\":\"theirs\"}}\n")
	if err := os.Chmod(filepath.Join(dir, "6.traces.jsonl"), 0); err != nil {
		t.Fatal(err)
	}
	s := &picky{traces: traces{have: map[string]string{}}}
	var mu sync.Mutex
	var told []string
	b := store.NewBuffer(s, store.BufferOptions{Spool: dir, Fault: func(err error, _ int64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err.Error())
	}})
	eventually(t, "what can be saved is not", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range []string{"first", "second", "third", "last"} {
			if _, ok := s.have[id]; !ok {
				return false
			}
		}
		return true
	})
	eventually(t, "what is lost is not counted", func() bool { _, _, dropped := b.Counts(); return dropped == 5 })
	if err := b.Close(); err == nil {
		t.Error("Close does not say that traces are lost")
	}
	if text := strings.Join(told, "\n"); !strings.Contains(text, "4 lines") || !strings.Contains(text, "trace bad") {
		t.Errorf("told %q", text)
	}
	if _, err := os.Lstat(filepath.Join(dir, "4.traces.jsonl")); linked && err != nil {
		t.Error("a link was taken")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.have["outside"]; ok {
		t.Error("a link was followed")
	}
}

// A trace that is recorded after Close is lost for that reason, not for lack of room.
func TestATraceAfterClose(t *testing.T) {
	for _, spool := range []string{"", t.TempDir()} {
		var faults []error
		b := store.NewBuffer(&traces{have: map[string]string{}}, store.BufferOptions{Spool: spool, Fault: func(err error, _ int64) { faults = append(faults, err) }})
		b.Close()
		b.Record(t.Context(), &sdk.Trace{ID: "late"})
		if len(faults) != 1 || faults[0].Error() != "traces are dropped: the buffer is closed" {
			t.Errorf("spool %q: %v", spool, faults)
		}
	}
}
