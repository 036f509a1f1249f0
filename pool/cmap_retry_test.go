package pool

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What a driver does after an attempt that failed, as far as its events tell, and what the two attempts then are.
func TestCMAPHoldsAttempts(t *testing.T) {
	const patience = 30 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	find := func(s *script, ctx context.Context, err error) {
		s.m.Command(ctx, &CommandEvent{ConnectionID: here + "[-1]", Name: "find", Err: err, RetryableRead: err != nil})
	}
	ask := func(s *script) { s.pool(checkOutStarted, 0); s.out(1, 0) }
	again := func(s *script) { ask(s); find(s, ctx, nil); s.in(1) }
	elsewhere := func(f func()) { var wg sync.WaitGroup; wg.Go(f); wg.Wait() }
	for name, tt := range map[string]struct {
		then func(s *script)
		want []int // attempts of what was reported
		held int
	}{
		"nothing yet":                  {func(*script) {}, nil, 1},
		"repeated":                     {again, []int{2}, 0},
		"repeated after a long search": {func(s *script) { time.Sleep(patience - time.Second); again(s) }, []int{2}, 0},
		"no server was found":          {func(s *script) { time.Sleep(patience + time.Second); again(s) }, []int{1, 1}, 0},
		"no connection was got":        {func(s *script) { s.pool(checkOutStarted, 0); s.pool(checkOutFailed, 0) }, []int{1}, 0},
		"given back unused":            {func(s *script) { ask(s); s.in(1) }, []int{1}, 0},
		"another name":                 {func(s *script) { ask(s); s.command("count", here+"[-1]", 0) }, []int{1, 1}, 0},
		"another context":              {func(s *script) { ask(s); find(s, context.Background(), nil) }, []int{1, 1}, 0},
		"repeated on who knows which": {func(s *script) {
			ask(s)
			s.m.Command(ctx, &CommandEvent{ConnectionID: here + "[-9]", Name: "find"})
			again(s) // the caller's next
		}, []int{0, 1}, 0},
		"given back unused, who knows which": {func(s *script) { s.pool(checkOutStarted, 0); s.out(9, 0); s.in(9) }, []int{1}, 0},
		"another goroutine":                  {func(s *script) { elsewhere(func() { again(s) }) }, []int{1}, 1},
		"another goroutine, and then late":   {func(s *script) { time.Sleep(patience + time.Second); elsewhere(func() { again(s) }) }, []int{1, 1}, 0},
		"its pool is closed":                 {func(s *script) { s.pool(poolCreated, 0); s.pool(poolClosed, 0) }, []int{1}, 0},
		"the repetition takes long": {func(s *script) {
			ask(s)
			time.Sleep(10 * patience)
			elsewhere(func() { find(s, context.Background(), nil) })
			find(s, ctx, nil)
		}, []int{1, 2}, 0},
		"a report, late": {func(s *script) {
			s.pool(poolCreated, 0)
			time.Sleep(patience + time.Second)
			s.p.Report()
		}, []int{1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t)
				s.m.RetryReads, s.m.SelectionTimeout = true, patience
				s.create(1)
				ask(s)
				find(s, ctx, io.EOF)
				s.in(1)
				tt.then(s)
				var got []int
				for _, e := range s.operations() {
					got = append(got, e.Op.Attempts)
				}
				held := s.m.Stats().Held
				if len(got) != len(tt.want) || held != tt.held {
					t.Fatalf("attempts %v, %d held; want %v, %d held", got, held, tt.want, tt.held)
				}
				for i := range got {
					if got[i] != tt.want[i] {
						t.Errorf("attempts %v, want %v", got, tt.want)
					}
				}
			})
		})
	}
}

// A session of the caller's may be in a transaction, in which nothing is repeated: its start tells.
func TestCMAPDoesNotHoldWhatMayBeInATransaction(t *testing.T) {
	started := func(autocommit bool) []byte {
		d := "\x02find\x00\x07\x00\x00\x00things\x00"
		if autocommit {
			d += "\x08autocommit\x00\x00"
		}
		return []byte(string(byte(len(d)+5)) + "\x00\x00\x00" + d + "\x00")
	}
	for name, tt := range map[string]struct {
		start []byte
		held  int
		want  []int
	}{
		"nothing tells":        {nil, 1, []int{0}},
		"in a transaction":     {started(true), 0, []int{1}},
		"not in a transaction": {started(false), 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.m.RetryReads, s.m.SelectionTimeout = true, time.Minute
			s.create(1)
			s.out(1, 0)
			if tt.start != nil {
				s.m.Started(context.Background(), StartedEvent{ConnectionID: here + "[-1]", RequestID: 7, Name: "find", Command: tt.start})
			}
			s.m.Command(context.Background(), &CommandEvent{
				ConnectionID: here + "[-1]", RequestID: 7, Name: "find", Err: io.EOF, RetryableRead: true, Session: true,
			})
			var got []int
			for _, e := range s.operations() {
				got = append(got, e.Op.Attempts)
			}
			if s.m.Stats().Held != tt.held || len(got) != len(tt.want) || len(got) > 0 && got[0] != tt.want[0] {
				t.Errorf("%d held, attempts %v; want %d, %v", s.m.Stats().Held, got, tt.held, tt.want)
			}
		})
	}
}

// Writes of one session are told apart by the number that it gave them.
func TestCMAPTellsWritesApartByTheirNumber(t *testing.T) {
	start := func(txn byte, transaction bool) []byte {
		d := "\x02insert\x00\x07\x00\x00\x00things\x00" +
			"\x03lsid\x00\x1e\x00\x00\x00\x05id\x00\x10\x00\x00\x00\x04sixteen bytes!!!\x00" +
			"\x12txnNumber\x00" + string(txn) + "\x00\x00\x00\x00\x00\x00\x00"
		if transaction {
			d += "\x08autocommit\x00\x00"
		}
		return []byte(string(byte(len(d)+5)) + "\x00\x00\x00" + d + "\x00")
	}
	for name, tt := range map[string]struct {
		first, second []byte // nil where the start was not told
		want          []int
	}{
		"one number":       {start(1, false), start(1, false), []int{2}},
		"one is not told":  {start(1, false), nil, []int{0, 0}},
		"another":          {start(1, false), start(2, false), []int{1, 1}},
		"in a transaction": {start(1, true), start(1, true), []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.m.RetryWrites, s.m.SelectionTimeout = true, time.Minute
			s.create(1)
			for i, b := range [][]byte{tt.first, tt.second} {
				s.pool(checkOutStarted, 0)
				s.out(1, 0)
				e := CommandEvent{ConnectionID: here + "[-1]", RequestID: int64(i + 1), Name: "insert"}
				if i == 0 {
					e.Err, e.RetryableWrite = io.EOF, true
				}
				if b != nil {
					s.m.Started(context.Background(), StartedEvent{ConnectionID: e.ConnectionID, RequestID: e.RequestID, Name: "insert", Command: b})
				}
				s.m.Command(context.Background(), &e)
				s.in(1)
			}
			var got []int
			for _, e := range s.operations() {
				got = append(got, e.Op.Attempts)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("attempts %v, want %v", got, tt.want)
			}
		})
	}
}
