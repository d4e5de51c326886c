package main

import (
	"maps"
	"slices"
	"strconv"
	"sync"
)

// Partition is a topic and the number of a partition.
type Partition struct {
	topic  string
	number int32
}

func (p Partition) String() string { return p.topic + "/" + strconv.Itoa(int(p.number)) }

// Assignments writes `assignments` and `deliveries` for one incarnation of a consumer, and holds its assignment.
//
// numbers: running number of the assignment of each partition held. lastNumbers: the same, with the last number of each
// partition that is no longer held. positions: offset after the last processed record, or the start position; `missing`
// if that is unknown. All of it is guarded by mu: each partition has a goroutine.
type Assignments struct {
	spec              *Spec
	mode              string
	instanceID        *string
	table, deliveries *Table
	mu                sync.Mutex
	memberID          *string
	generation        int64
	count             int64
	numbers           map[Partition]int64
	lastNumbers       map[Partition]int64
	positions         map[Partition]int64
	delivered         int64
	generationOfCount int64
	seeks             [][]any
}

func newAssignments(spec *Spec, mode, instanceID string) (*Assignments, error) {
	a := &Assignments{
		spec: spec, mode: mode, generation: missing, generationOfCount: missing,
		numbers: map[Partition]int64{}, lastNumbers: map[Partition]int64{}, positions: map[Partition]int64{},
	}
	if instanceID != "" {
		a.instanceID = &instanceID
	}
	var err error
	if a.table, err = newTable(spec, "assignments"); err != nil {
		return nil, err
	}
	a.deliveries, err = newTable(spec, "deliveries")
	return a, err
}

// batch returns a batch with the columns that identify the reader.
func (a *Assignments) batch() *Batch {
	return newBatch().
		put("consumer", a.spec.Client).
		int("incarnation", a.spec.Incarnation).
		put("group", a.spec.Group).
		put("mode", a.mode)
}

func (a *Assignments) membership(memberID string, generation int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memberID, a.generation = &memberID, int64(generation)
}

// begin records that a partition is read from a position; the source is empty if the library chooses it. The partitions
// of one generation share a running number.
func (a *Assignments) begin(partition Partition, position int64, source string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == 0 || a.generation != a.generationOfCount || a.lastNumbers[partition] == a.count {
		a.count++
		a.generationOfCount = a.generation
	}
	a.numbers[partition], a.lastNumbers[partition] = a.count, a.count
	a.positions[partition] = position
	if source == "" {
		a.write("assigned", partition, nil)
	} else {
		a.write("assigned", partition, &source)
	}
}

// end records that a partition was given up: the event is revoked or lost.
func (a *Assignments) end(partition Partition, event string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.write(event, partition, nil)
	delete(a.numbers, partition)
	delete(a.positions, partition)
}

// sought records that partitions are read from other positions from now on: each has the next running number. Partitions
// that are not held are left out.
func (a *Assignments) sought(targets map[Partition]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	source := "seek"
	a.count++
	for partition, target := range targets {
		if _, held := a.numbers[partition]; !held {
			continue
		}
		var from any
		if position := a.positions[partition]; position != missing {
			from = position
		}
		a.seeks = append(a.seeks, []any{partition.String(), from, target})
		a.numbers[partition], a.lastNumbers[partition], a.positions[partition] = a.count, a.count, target
		a.write("seek", partition, &source)
	}
}

// held returns the partitions that are held.
func (a *Assignments) held() []Partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.numbers))
}

func (a *Assignments) write(event string, partition Partition, source *string) {
	a.table.write(a.batch().
		put("member_id", a.memberID).
		int("generation", a.generation).
		put("event", event).
		int("assignment", a.lastNumbers[partition]).
		put("topic", partition.topic).
		put("partition", partition.number).
		int("position", a.positions[partition]).
		put("source", source).
		put("instance_id", a.instanceID).
		int("at_us", nowUs()))
}

func (a *Assignments) holds(partition Partition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, held := a.numbers[partition]
	return held
}

// number returns the running number of the last assignment of a partition; `missing` if it had none.
func (a *Assignments) number(partition Partition) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if number, found := a.lastNumbers[partition]; found {
		return number
	}
	return missing
}

// progress returns the fields of the progress event.
func (a *Assignments) progress() map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	held, positions := map[string]bool{}, map[string]int64{}
	for partition := range a.numbers {
		held[partition.String()] = true
	}
	for partition, position := range a.positions {
		if position != missing {
			positions[partition.String()] = position
		}
	}
	fields := map[string]any{
		"delivered": a.delivered, "assigned": sortedKeys(held), "positions": positions,
		"member_id": a.memberID, "generation": nil,
	}
	if a.generation != missing {
		fields["generation"] = a.generation
	}
	if a.seeks != nil {
		fields["sought"] = a.seeks
	}
	return fields
}
