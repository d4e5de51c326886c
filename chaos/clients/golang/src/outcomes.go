package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Outcomes of sends and commits: ok, fail (definitely did not happen) or unknown (may have happened). Errors that are
// not in traits.json are unknown.
const (
	ok      = "ok"
	fail    = "fail"
	unknown = "unknown"
)

// commitOutcome returns the outcome of a commit by the code in the answer. kept is what all its attempts have in common.
func commitOutcome(code int16, kept []string) string {
	if code == 0 {
		return ok
	}
	return outcome(traits.Commits, protocolName(int(code)), kept)
}

func outcome(refusals map[string]refusal, name string, kept []string) string {
	found, listed := refusals[name]
	if !listed {
		return unknown
	}
	for _, need := range found.Needs {
		if !slices.Contains(kept, need) && !slices.Contains(kept, "attempt") {
			return unknown
		}
	}
	return fail
}

// errorName returns the name of an error: its name in the protocol, or the type of an error of the library.
func errorName(err error) string {
	if code, found := protocolCode(err); found {
		return protocolName(code)
	}
	if kind := reflect.TypeOf(err).String(); !strings.HasPrefix(kind, "*errors.") && !strings.HasPrefix(kind, "*fmt.") {
		return strings.TrimPrefix(kind, "*")
	}
	text := err.Error()
	return text[:min(len(text), 100)]
}

func protocolName(code int) string {
	if name, known := traits.Errors[code]; known {
		return name
	}
	return fmt.Sprintf("ERROR_%d", code)
}

// describe returns the name and the text of an error.
func describe(err error) string {
	name := errorName(err)
	if strings.HasPrefix(err.Error(), name) {
		return err.Error()
	}
	return name + ": " + err.Error()
}
