package main

import "log"

// CommitLog writes `commits` from what the connections of a consumer carry: one row for each partition of each request,
// with the outcome in the broker's answer. A request without an answer is unknown.
type CommitLog struct {
	*CommitTable
	life *Lifecycle
}

func newCommitLog(spec *Spec, assignments *Assignments, life *Lifecycle) (*CommitLog, error) {
	table, err := newCommitTable(spec, assignments)
	return &CommitLog{table, life}, err
}

func (c *CommitLog) sent(offsets []committed) any { return c.request(offsets) }

func (c *CommitLog) answered(request any, codes map[Partition]int16) {
	sent := request.(commitRequest)
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
			c.write(sent, i, commitOutcome(code, []string{"attempt"}), name)
		}
	}
}

func (c *CommitLog) lost(request any) {
	sent := request.(commitRequest)
	for i := range sent.offsets {
		c.write(sent, i, unknown, "no answer before the connection ended")
	}
}

// unreadable ends the process: without its commits, the ledger would be incomplete.
func (c *CommitLog) unreadable(err error) {
	c.life.error(err.Error(), true)
	log.Fatal(err)
}
