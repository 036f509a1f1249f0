package main

import (
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/connprof/connprof/exporters/term"
)

// progress is a bar on a terminal, and nothing anywhere else.
type progress struct {
	w   io.Writer
	all *mpb.Progress
	bar *mpb.Bar
}

func newProgress(w io.Writer) *progress {
	if _, ok := term.Terminal(w); !ok {
		w = nil
	}
	return &progress{w: w}
}

func (p *progress) begin(steps int) {
	if p.w == nil || steps == 0 {
		return
	}
	p.all = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(48))
	p.bar = p.all.New(int64(steps), mpb.BarStyle().Lbound("").Rbound("").Filler("█").Tip("█").Padding("·"),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name("measuring ")),
		mpb.AppendDecorators(decor.CountersNoUnit(" %d of %d queries")))
}

func (p *progress) step() {
	if p.bar != nil {
		p.bar.Increment()
	}
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.all.Wait()
	}
}
