package main

import (
	"sync"
	"time"
)

// marks is what takes the offsets of a partition: a session of a group, or an offset manager.
type marks interface {
	mark(partition Partition, offset int64)
	// commit sends the marked offsets of all partitions, and waits for the answer.
	commit()
}

// Committer marks and commits as the commit setting says.
type Committer struct {
	setting Commit
	mu      sync.Mutex
	next    time.Time
}

func newCommitter(setting Commit) *Committer {
	return &Committer{setting: setting, next: time.Now().Add(seconds(setting.EveryS))}
}

// before marks a batch before it is processed, if the setting says so. With automatic commits, the library commits it.
func (c *Committer) before(to marks, ends map[Partition]int64) {
	if c.setting.When == "before_processing" {
		c.markAll(to, ends)
		c.now(to)
	}
}

// after marks processed records.
func (c *Committer) after(to marks, partition Partition, end int64) {
	switch c.setting.When {
	case "before_processing":
	case "never":
		if c.setting.OnRevoke {
			to.mark(partition, end)
		}
	case "after_record":
		to.mark(partition, end)
		c.now(to)
	case "periodic":
		to.mark(partition, end)
		c.due(to)
	default:
		if c.setting.Kind == "auto" {
			to.mark(partition, end)
		}
	}
}

// afterBatch marks and commits a batch that was processed.
func (c *Committer) afterBatch(to marks, ends map[Partition]int64) {
	if c.setting.When == "after_batch" && c.setting.Kind != "auto" {
		c.markAll(to, ends)
		to.commit()
	}
}

func (c *Committer) markAll(to marks, ends map[Partition]int64) {
	for partition, end := range ends {
		to.mark(partition, end)
	}
}

// due commits at the interval.
func (c *Committer) due(to marks) {
	if c.setting.When != "periodic" {
		return
	}
	c.mu.Lock()
	due := !time.Now().Before(c.next)
	if due {
		c.next = time.Now().Add(seconds(c.setting.EveryS))
	}
	c.mu.Unlock()
	if due {
		to.commit()
	}
}

// revoked commits what was processed of a partition that is given up, if the setting says so.
func (c *Committer) revoked(to marks) {
	if c.setting.OnRevoke {
		to.commit()
	}
}

func (c *Committer) now(to marks) {
	if c.setting.Kind != "auto" {
		to.commit()
	}
}

func (c *Committer) eachRecord() bool { return c.setting.When == "after_record" }

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// noMarks takes offsets that are not committed.
type noMarks struct{}

func (noMarks) mark(Partition, int64) {}
func (noMarks) commit()               {}
