// The clients in Go: each process runs the client of one spec. See chaos/clients/README.md for the contract.
//
// This folder has what does not depend on the client library. The folder of a library completes the package: its
// library.go has the type Record, the constants of the library, and lacks and logLibrary.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// client is one incarnation of a client. run returns nil if everything was done that the event stopped means.
type client interface {
	run() error
}

// main runs the client of the spec in the only argument. Without an argument, it prints the release of the library.
func main() {
	if len(os.Args) < 2 {
		fmt.Println(release())
		return
	}
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	logLibrary()
	spec, err := loadSpec(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	channel := newChannel()
	life, err := newLifecycle(spec, channel)
	if err != nil {
		log.Fatal(err)
	}
	go channel.listen()
	if err := runClient(spec, channel, life); err != nil {
		life.error(describe(err), true)
		os.Exit(1)
	}
	life.event("stopped", map[string]any{})
}

func runClient(spec *Spec, channel *Channel, life *Lifecycle) error {
	if err := spec.refuse(); err != nil {
		return err
	}
	chosen, err := newClient(spec, channel, life)
	if err != nil {
		return err
	}
	started := map[string]any{reportedAs: release(), "go": strings.TrimPrefix(runtime.Version(), "go")}
	if spec.Program == "producer" {
		started["first_seq"] = spec.FirstSeq
	}
	if spec.Checkpoint != nil {
		started["checkpoint"] = spec.Checkpoint
	}
	life.event("started", started)
	return chosen.run()
}

func newClient(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	switch spec.Program {
	case "producer":
		return newProducer(spec, channel, life)
	case "group_consumer":
		return newGroupConsumer(spec, channel, life)
	case "assign_consumer":
		return newAssignConsumer(spec, channel, life)
	}
	return nil, errors.New("program: there is no program " + spec.Program + " for " + libraryModule)
}

// release returns the release of the library in this binary, such as 1.46.3.
func release() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == libraryModule {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}
