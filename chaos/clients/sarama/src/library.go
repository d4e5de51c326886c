package main

import (
	"errors"
	"log"
	"strings"

	"github.com/IBM/sarama"
)

const (
	libraryModule = "github.com/IBM/sarama"
	reportedAs    = "sarama"
)

// Record is a record that was read.
type Record = sarama.ConsumerMessage

func logLibrary() { sarama.Logger = log.Default() }

func lacks(s *Spec) []lack {
	return []lack{
		{s.NoGroupID != nil, "no_group_id: a partition consumer of sarama has no group.id"},
		{s.Commit.Kind == "async", "commit: sarama has no asynchronous commit"},
		{len(s.Topics) > 0 && strings.HasPrefix(s.Topics[0], "^"), "topics: sarama subscribes to no patterns"},
	}
}

// sendOutcome returns the outcome of a send with an error. kept is what all its attempts have in common.
func sendOutcome(err error, partition int32, kept []string) string {
	var local sarama.ConfigurationError
	if partition == unpartitioned || errors.Is(err, sarama.ErrInvalidPartition) || errors.As(err, &local) {
		return fail // found before the message left the dispatcher, and so before its first attempt
	}
	return outcome(traits.Sends, errorName(err), kept)
}

// protocolCode returns the error code of the protocol that an error is.
func protocolCode(err error) (int, bool) {
	var code sarama.KError
	found := errors.As(err, &code)
	return int(code), found
}
