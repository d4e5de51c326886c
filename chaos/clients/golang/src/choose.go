package main

import (
	"fmt"
	"slices"
	"strings"
)

// choose sets the target to the value with a name, in any case of its letters.
func choose[T any](target *T, known map[string]T, name string) error {
	found, there := known[strings.ToLower(name)]
	if !there {
		return fmt.Errorf("not one of %s", strings.Join(sortedKeys(known), ", "))
	}
	*target = found
	return nil
}

func sortedKeys[T any](values map[string]T) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
