package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of a command: on a terminal a bar with an ETA, elsewhere a line at intervals, so that
// logs stay readable. It is safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	w     io.Writer
	label string
	note  string
	total int
	done  int
	last  time.Time
}

func newProgress(w io.Writer, total int, label string) *progress {
	p := &progress{w: w, label: label, total: total}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription(label),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// plainEvery is the interval of progress lines without a terminal.
const plainEvery = 5 * time.Second

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.bar != nil {
		_ = p.bar.Add(n) // a drawing error must not stop the work
		return
	}
	if now := time.Now(); p.done == p.total || now.Sub(p.last) >= plainEvery {
		p.last = now
		fmt.Fprintf(p.w, "%s %d/%d%s\n", p.label, p.done, p.total, p.note)
	}
}

// describef sets the text beside the count.
func (p *progress) describef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = " " + fmt.Sprintf(format, args...)
	if p.bar != nil {
		p.bar.Describe(p.label + p.note)
	}
}

func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
