package gateway

import (
	"context"
	"testing"
)

// If memory is exhausted, the oldest answers are dropped; an answer that was posted again counts as new.
func TestOldestAnswersGoFirst(t *testing.T) {
	m := newMemoryNotes()
	third := make([]byte, maxAnswersBytes/3)
	for _, name := range []string{"a", "b", "a", "c", "d"} {
		if err := m.Post(context.Background(), kindAnswer, name, third, answerTTL); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if note, _ := m.Note(context.Background(), kindAnswer, name); (note != nil) != want {
			t.Errorf("%s: kept %v, want %v", name, note != nil, want)
		}
	}
}
