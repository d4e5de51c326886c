package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Spec is the spec of a client, with the fields of chaos.clients.protocol.
type Spec struct {
	Program        string           `json:"program"`
	RunToken       string           `json:"run_token"`
	Ledger         string           `json:"ledger"`
	Client         string           `json:"client"`
	Incarnation    int64            `json:"incarnation"`
	Bootstrap      string           `json:"bootstrap"`
	Security       *Security        `json:"security"`
	Config         map[string]any   `json:"config"`
	Topic          string           `json:"topic"`
	InTurn         []string         `json:"in_turn"`
	FirstSeq       int64            `json:"first_seq"`
	ValueSize      int              `json:"value_size"`
	StopWithinS    float64          `json:"stop_within_s"`
	Transactions   *Transactions    `json:"transactions"`
	Steady         []string         `json:"steady"`
	Records        int64            `json:"records"`
	Hold           bool             `json:"hold"`
	Rate           float64          `json:"rate"`
	Keys           int              `json:"keys"`
	Seed           uint64           `json:"seed"`
	TombstoneEvery *int             `json:"tombstone_every"`
	Timestamps     *Timestamps      `json:"timestamps"`
	Mode           string           `json:"mode"`
	Partitions     int64            `json:"partitions"`
	Partitioner    string           `json:"partitioner"`
	Group          *string          `json:"group"`
	Topics         []string         `json:"topics"`
	Commit         Commit           `json:"commit"`
	MaxPollRecords int              `json:"max_poll_records"`
	PerRecordS     float64          `json:"per_record_s"`
	Workers        json.RawMessage  `json:"workers"`
	Threads        []string         `json:"threads"`
	Start          string           `json:"start"`
	Offsets        map[string]int64 `json:"offsets"`
	TimestampMs    int64            `json:"timestamp_ms"`
	Checkpoint     map[string]int64 `json:"checkpoint"`
	DiscoverS      float64          `json:"discover_s"`
	NoGroupID      *string          `json:"no_group_id"`
}

// Security is how to connect: TLS and SASL. Secrets are references: env:NAME or file:PATH.
type Security struct {
	Protocol       string  `json:"protocol"`
	Mechanism      string  `json:"mechanism"`
	Username       string  `json:"username"`
	Password       string  `json:"password"`
	CA             string  `json:"ca"`
	Certificate    string  `json:"certificate"`
	Key            string  `json:"key"`
	KeyPassword    *string `json:"key_password"`
	VerifyHostname bool    `json:"verify_hostname"`
}

// Transactions is the division of records into transactions.
type Transactions struct {
	ID         string  `json:"id"`
	Records    int64   `json:"records"`
	AbortEvery int64   `json:"abort_every"`
	TimeoutS   float64 `json:"timeout_s"`
	HoldS      float64 `json:"hold_s"`
}

// Timestamps is how to get the timestamp of a record in ms from the time of the call in us.
type Timestamps struct {
	DivisorUs int64 `json:"divisor_us"`
	ShiftMs   int64 `json:"shift_ms"`
}

// of returns the timestamp of a record; zero if the library sets it.
func (t *Timestamps) of(callUs int64) time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.UnixMilli(callUs/t.DivisorUs + t.ShiftMs)
}

// Commit is when and how to commit offsets.
type Commit struct {
	When     string  `json:"when"`
	Kind     string  `json:"kind"`
	EveryS   float64 `json:"every_s"`
	OnRevoke bool    `json:"on_revoke"`
}

func (c Commit) automatic() bool { return c.Kind == "auto" && c.When != "never" }

func loadSpec(path string) (*Spec, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	spec := &Spec{Incarnation: 1, StopWithinS: 10, Mode: "callback", MaxPollRecords: 500}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(spec); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(spec.Checkpoint) == 0 {
		spec.Checkpoint = nil
	}
	return spec, nil
}

// topicOf returns the topic to which a producer writes the record with a seq.
func (s *Spec) topicOf(seq int64) *string {
	if len(s.InTurn) == 0 {
		return &s.Topic
	}
	return &s.InTurn[seq%int64(len(s.InTurn))]
}

// lack is a field of a spec that the programs of a library cannot do.
type lack struct {
	asked bool
	why   string
}

// refuse returns an error that names the first field that the programs cannot do.
func (s *Spec) refuse() error {
	all := []lack{
		{s.TombstoneEvery != nil, "tombstone_every: these programs write no tombstones"},
		{len(s.Workers) > 0 && string(s.Workers) != "null", "workers: these programs have no pool of workers"},
		{len(s.Threads) > 1, "threads: each member is a process"},
		{s.Security != nil && s.Security.KeyPassword != nil, "key_password: Go does not read encrypted keys"},
	}
	for _, part := range append(all, lacks(s)...) {
		if part.asked {
			return errors.New(part.why)
		}
	}
	return nil
}

// writer returns the name of the ledger files of an incarnation of this client.
func (s *Spec) writer(incarnation int64) string {
	return fmt.Sprintf("%s.%d", strings.ReplaceAll(s.Client, "/", "-"), incarnation)
}

func (s *Spec) role() string {
	if strings.HasSuffix(s.Program, "consumer") {
		return "consumer"
	}
	return "producer"
}
