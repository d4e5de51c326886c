package main

// CommitTable writes `commits` for one incarnation of a consumer.
type CommitTable struct {
	assignments *Assignments
	table       *Table
	kind        string
}

// committed is the offset of a partition to commit.
type committed struct {
	partition Partition
	offset    int64
}

// commitRequest is a request to commit, with the assignments at that time: the answer may arrive under a later one.
type commitRequest struct {
	offsets []committed
	numbers []int64
	atUs    int64
}

func newCommitTable(spec *Spec, assignments *Assignments) (*CommitTable, error) {
	kind := spec.Commit.Kind
	if kind == "auto" && spec.Commit.When == "never" {
		kind = "sync"
	}
	table, err := newTable(spec, "commits")
	return &CommitTable{assignments, table, kind}, err
}

func (c *CommitTable) request(offsets []committed) commitRequest {
	request := commitRequest{offsets: offsets, atUs: nowUs()}
	for _, offset := range offsets {
		request.numbers = append(request.numbers, c.assignments.number(offset.partition))
	}
	return request
}

// write writes the row of one offset of a request.
func (c *CommitTable) write(sent commitRequest, i int, outcome, problem string) {
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
