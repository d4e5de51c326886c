package main

import "time"

// rowsEveryS is the time between two writes of rows while records take processing time.
const rowsEveryS = 0.02

// Processing is what consumers of every library do with records: take their processing time, write their rows, and mark
// their offsets, in the order of the commit setting.
type Processing struct {
	spec        *Spec
	channel     *Channel
	assignments *Assignments
	committer   *Committer
}

func newProcessing(spec *Spec, channel *Channel, assignments *Assignments) *Processing {
	return &Processing{spec, channel, assignments, newCommitter(spec.Commit)}
}

// sendProgress sends progress events until the channel is closed.
func (p *Processing) sendProgress(ended <-chan struct{}) {
	for sleep(progressEvery.Seconds(), ended) {
		p.progress()
	}
}

func (p *Processing) progress() { p.channel.progress(p.assignments.progress()) }

// processPartition processes records of one partition and writes their rows. It returns how many it processed: fewer if
// the client stops, or `ended` is closed because the partition is given up.
func (p *Processing) processPartition(
	partition Partition, batch []*Record, polledUs int64, ended <-chan struct{}, to marks,
) int {
	if p.committer.setting.When == "before_processing" {
		ended = nil // a member that gave up now would lose what it has committed
	}
	done := 0
	for done < len(batch) {
		size := min(p.groupSize(len(batch)), len(batch)-done)
		if !p.work(size, ended) {
			break
		}
		p.assignments.deliver(partition, batch[done:done+size], polledUs)
		done += size
		p.committer.after(to, partition, batch[done-1].Offset+1)
	}
	return done
}

func (p *Processing) perRecordS() float64 { return p.spec.PerRecordS + p.channel.perRecordS() }

// groupSize returns the number of records that are processed before their rows are written.
func (p *Processing) groupSize(batch int) int {
	if p.committer.eachRecord() {
		return 1
	}
	if perRecordS := p.perRecordS(); perRecordS > 0 {
		return int(max(1, rowsEveryS/perRecordS))
	}
	return batch
}

// work lets the processing time of records pass. It returns false if the partition is to be given up first.
func (p *Processing) work(records int, ended <-chan struct{}) bool {
	began := time.Now()
	for {
		leftS := float64(records)*p.perRecordS() - time.Since(began).Seconds()
		if leftS <= 0 {
			return true
		}
		if p.channel.stopping() || !sleep(min(leftS, napS), ended) {
			return false
		}
	}
}
