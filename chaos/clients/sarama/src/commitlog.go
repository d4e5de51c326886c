package main

import "log"

// CommitLog writes `commits` for one incarnation of a consumer, from what its connections carry: one row for each
// partition of each request, with the outcome in the broker's answer. A request without an answer is unknown.
type CommitLog struct {
	assignments *Assignments
	table       *Table
	kind        string
	life        *Lifecycle
}

func newCommitLog(spec *Spec, assignments *Assignments, life *Lifecycle) (*CommitLog, error) {
	kind := "sync"
	if spec.Commit.automatic() {
		kind = "auto"
	}
	table, err := newTable(spec, "commits")
	return &CommitLog{assignments, table, kind, life}, err
}

// commitRequestRows is a request, with the assignments at that time: the answer may arrive under a later one.
type commitRequestRows struct {
	offsets []committed
	numbers []int64
	atUs    int64
}

func (c *CommitLog) sent(offsets []committed) any {
	request := commitRequestRows{offsets: offsets, atUs: nowUs()}
	for _, offset := range offsets {
		request.numbers = append(request.numbers, c.assignments.number(offset.partition))
	}
	return request
}

func (c *CommitLog) answered(request any, codes map[Partition]int16) {
	sent := request.(commitRequestRows)
	for i, offset := range sent.offsets {
		code, found := codes[offset.partition]
		switch {
		case !found:
			c.write(sent, i, unknown, "no answer for this partition")
		case code == 0:
			c.write(sent, i, ok, "")
		default:
			name := protocolName(int(code))
			log.Printf("commit of %s to %d: %s", offset.partition, offset.offset, name)
			c.write(sent, i, commitOutcome(code), name)
		}
	}
}

func (c *CommitLog) lost(request any) {
	sent := request.(commitRequestRows)
	for i := range sent.offsets {
		c.write(sent, i, unknown, "no answer before the connection ended")
	}
}

// unreadable ends the process: without its commits, the ledger would be incomplete.
func (c *CommitLog) unreadable(err error) {
	c.life.error(err.Error(), true)
	log.Fatal(err)
}

func (c *CommitLog) write(sent commitRequestRows, i int, outcome, problem string) {
	var name *string
	if problem != "" {
		name = &problem
	}
	offset := sent.offsets[i]
	c.table.write(c.assignments.batch().
		int("assignment", sent.numbers[i]).
		put("topic", offset.partition.topic).
		put("partition", offset.partition.number).
		int("offset", offset.offset).
		put("kind", c.kind).
		put("outcome", outcome).
		put("error", name).
		int("requested_us", sent.atUs).
		int("completed_us", nowUs()))
}
