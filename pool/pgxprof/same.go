package pgxprof

import "reflect"

// same reports whether two function values run the same code. All values of one method do, whatever their receivers: for a hook of ours it
// says that it is one, not which.
func same[F any](f, g F) bool { return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer() }
