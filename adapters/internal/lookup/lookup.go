// Package lookup fills maps that grow with use: entries made on first use, and a limit on their number.
package lookup

// Entry returns an entry of a map. It creates the map and the entry if they are missing.
func Entry[K comparable, V any](m *map[K]*V, key K) *V {
	if *m == nil {
		*m = map[K]*V{}
	}
	if (*m)[key] == nil {
		(*m)[key] = new(V)
	}
	return (*m)[key]
}

// MakeRoom creates a map if it is nil, and drops arbitrary entries until there is room for one more below most.
func MakeRoom[M ~map[K]V, K comparable, V any](m *M, most int) {
	if *m == nil {
		*m = M{}
	}
	for key := range *m {
		if len(*m) < most {
			return
		}
		delete(*m, key)
	}
}
