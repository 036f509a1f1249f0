package pgxprof

import "reflect"

// same reports whether two function values run the same code. All values of one method do, whatever their receivers: for a hook of ours it
// says that it is one, not which.
func same[F any](f, g F) bool { return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer() }

// restore puts theirs back in place of ours, unless it holds neither ours nor anything.
func restore[F any](place *F, ours, theirs F) {
	if !reflect.ValueOf(place).Elem().IsNil() && same(*place, ours) {
		*place = theirs
	}
}
