package profiler

import (
	"fmt"
	"testing"
)

func TestPoolsOfOneNameAreAddedUpAndThoseThatAreGoneStay(t *testing.T) {
	var p Profiler
	calls := 0
	one := p.WatchPool("db", func() PoolStats {
		calls++
		return PoolStats{MaxOpen: 10, Open: 3, InUse: 2, Idle: 1, WaitCount: 5, WaitDuration: 7, IdleLimitClosed: 1, IdleTimeClosed: 2, LifetimeClosed: 3}
	})
	two := p.WatchPool("db", func() PoolStats { return PoolStats{MaxOpen: 4, Open: 1, Idle: 1, WaitCount: 1, WaitDuration: 1} })
	p.WatchPool("another", func() PoolStats { return PoolStats{Open: 9} })
	want := PoolReport{"db", 2, 2, PoolStats{MaxOpen: 14, Open: 4, InUse: 2, Idle: 2, WaitCount: 6, WaitDuration: 8,
		IdleLimitClosed: 1, IdleTimeClosed: 2, LifetimeClosed: 3}}
	if got := p.Report().Pools; len(got) != 2 || got[1] != want || got[0].Name != "another" {
		t.Errorf("got %+v", got)
	}
	one()
	one() // again changes nothing
	want = PoolReport{"db", 2, 1, PoolStats{MaxOpen: 4, Open: 1, Idle: 1, WaitCount: 6, WaitDuration: 8,
		IdleLimitClosed: 1, IdleTimeClosed: 2, LifetimeClosed: 3}}
	if got := p.Report().Pools[1]; got != want || calls != 2 {
		t.Errorf("after one is gone: %+v, asked it %d times", got, calls)
	}
	two()
	want = PoolReport{"db", 2, 0, PoolStats{WaitCount: 6, WaitDuration: 8, IdleLimitClosed: 1, IdleTimeClosed: 2, LifetimeClosed: 3}}
	if got := p.Report().Pools[1]; got != want {
		t.Errorf("after both are gone: %+v", got)
	}
}

func TestAPoolWithoutALimitTakesItFromTheSum(t *testing.T) {
	var p Profiler
	p.WatchPool("db", func() PoolStats { return PoolStats{MaxOpen: 10} })
	p.WatchPool("db", func() PoolStats { return PoolStats{} })
	if got := p.Report().Pools[0].MaxOpen; got != 0 {
		t.Errorf("at most %d", got)
	}
}

func TestPoolNamesAreBounded(t *testing.T) {
	var p Profiler
	for i := range maxPools + 50 {
		p.WatchPool(fmt.Sprint("pool", i), func() PoolStats { return PoolStats{Open: 1} })
	}
	ps := p.Report().Pools
	if len(ps) != maxPools+1 || ps[0].Name != "(other)" || ps[0].Opened != 50 || ps[0].Open != 50 {
		t.Errorf("%d names, the first %+v", len(ps), ps[0])
	}
	(*Profiler)(nil).WatchPool("x", nil)()
}
