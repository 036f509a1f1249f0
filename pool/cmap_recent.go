package pool

import "sync/atomic"

// recent finds the members that events came for lately, by number and by the driver's name, without a map: two small tables whose
// places are shared by what falls on them. What they say is checked, and what they don't know the maps tell.
type recent struct {
	byID   [recentSize]atomic.Pointer[member]
	byName [recentSize]atomic.Pointer[member]
}

const recentSize = 128 // a pool has 100 connections at most, unless told otherwise

func (r *recent) slot(address string, id uint64) *member {
	if k := r.byID[id%recentSize].Load(); k != nil && k.slot.id == id && k.slot.address == address && !k.removed.Load() {
		return k
	}
	return nil
}

func (r *recent) name(driver string) *member {
	if k := r.byName[place(driver)].Load(); k != nil && k.known.Load() && k.driver == driver && !k.removed.Load() {
		return k
	}
	return nil
}

func (r *recent) keepID(k *member)   { r.byID[k.slot.id%recentSize].Store(k) }
func (r *recent) keepName(k *member) { r.byName[place(k.driver)].Store(k) }

// forget lets go of a member that is gone.
func (r *recent) forget(k *member) {
	k.removed.Store(true)
	r.byID[k.slot.id%recentSize].CompareAndSwap(k, nil)
	if k.known.Load() {
		r.byName[place(k.driver)].CompareAndSwap(k, nil)
	}
}

// place is the driver's number of a connection, "address[-N]", as far as it tells places apart.
func place(driver string) uint {
	n, unit := uint(0), uint(1)
	for i := len(driver) - 2; i >= 0 && unit <= 100; i-- {
		d := driver[i] - '0'
		if d > 9 {
			break
		}
		n += uint(d) * unit
		unit *= 10
	}
	return n % recentSize
}
