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

// place is the driver's number of a connection, "address[-N]", as far as it tells places apart: its last digits.
func place(driver string) uint {
	i := len(driver) - 2
	if i < 2 {
		return 0
	}
	n := uint(driver[i] - '0')
	if d := driver[i-1] - '0'; d <= 9 {
		n += 10 * uint(d)
		if d := driver[i-2] - '0'; d <= 9 {
			n += 100 * uint(d)
		}
	}
	return n % recentSize
}
