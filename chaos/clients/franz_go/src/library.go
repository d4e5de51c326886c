package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	libraryModule = "github.com/twmb/franz-go"
	reportedAs    = "franz_go"
)

// Record is a record that was read.
type Record = kgo.Record

// logLibrary does nothing: each client of the library has its logger; see `connection`.
func logLibrary() {}

func lacks(s *Spec) []lack {
	return []lack{
		{s.NoGroupID != nil, "no_group_id: a client of franz-go that is assigned partitions has no group.id"},
		{s.Program == "assign_consumer" && s.Commit.automatic(), "commit: franz-go commits by itself in groups only"},
	}
}

// sendOutcome returns the outcome of a send with an error. kept is what all its attempts have in common.
func sendOutcome(err error, partition int32, kept []string) string {
	if partition == unpartitioned {
		return fail // only records of partitions are put in requests
	}
	return outcome(traits.Sends, errorName(err), kept)
}

// protocolCode returns the error code of the protocol that an error is.
func protocolCode(err error) (int, bool) {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return 0, false
	}
	return int(code.Code), true
}

// isOneOf returns whether an error is one of these of the protocol.
func isOneOf(err error, codes ...*kerr.Error) bool {
	for _, code := range codes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
