package main

import (
	_ "embed"
	"encoding/json"
	"log"
)

// traitsJSON is written by chaos.clients.golang from the module traits of the library, which explains
// each entry.
//
//go:embed traits.json
var traitsJSON []byte

var traits struct {
	// Names are the common names of settings, with the names of the library.
	Names map[string]string `json:"names"`
	// Sends and Commits are the errors that prove a refusal, by their names in the protocol.
	Sends   map[string]refusal `json:"sends"`
	Commits map[string]refusal `json:"commits"`
	// Errors are the names of the error codes in the protocol.
	Errors map[int]string `json:"errors"`
}

// refusal is an error that proves a refusal if all attempts have this in common: attempt (there is only one), rights.
type refusal struct {
	Needs []string `json:"needs"`
}

func init() {
	if err := json.Unmarshal(traitsJSON, &traits); err != nil {
		log.Fatalf("traits.json: %v", err)
	}
}
