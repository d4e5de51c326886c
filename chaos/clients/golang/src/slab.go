package main

// slabSize is the number of objects of one allocation.
const slabSize = 64

// slab makes objects, many in one allocation: an allocation for each record costs time. The zero slab is ready.
type slab[T any] struct{ free []T }

// next returns a new object.
func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.free = make([]T, slabSize)
	}
	one := &s.free[0]
	s.free = s.free[1:]
	return one
}
