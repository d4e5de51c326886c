package main

import (
	"slices"
	"sync"
	"time"
)

const (
	writeEvery = 100 * time.Millisecond
	writeRows  = 4096
)

// send is a record passed to the library. It travels through it in the field Metadata of the message. settled: it has
// its row, or it was taken back.
type send struct {
	seq, txn, invokedUs int64
	key                 *string
	settled             bool
}

// SendLog writes `sends` for one incarnation of a client: one row for each record passed to the library.
type SendLog struct {
	spec                         *Spec
	table                        *Table
	kept                         []string
	mu                           sync.Mutex
	waiting                      int     // sends without an answer
	inOrder                      []*send // since the first of them
	rows                         []sendRow
	sent, acked, failed, unknown int64
	nextWrite                    time.Time
}

type sendRow struct {
	*send
	partition, offset, completedUs int64
	outcome                        string
	problem                        *string
}

func newSendLog(spec *Spec, kept []string) (*SendLog, error) {
	table, err := newTable(spec, "sends")
	return &SendLog{spec: spec, table: table, kept: kept}, err
}

// begin records that a send is about to be passed to the library.
func (s *SendLog) begin(one *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inOrder = append(s.inOrder, one)
	s.waiting++
	s.sent++
}

// cancel takes a send back that was not passed to the library.
func (s *SendLog) cancel(one *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.settled = true
	s.waiting--
	s.sent--
}

// succeeded records an acknowledged send. The library gives no offset (-1) without acknowledgement, and where the
// broker answers that it has the batch already.
func (s *SendLog) succeeded(one *send, partition int32, offset int64) {
	s.finish(sendRow{send: one, partition: int64(partition), offset: offset, outcome: ok})
}

// refused records a send that ended with an error; see `sendOutcome`.
func (s *SendLog) refused(one *send, partition int32, err error) {
	problem := errorName(err)
	outcome := sendOutcome(err, partition, s.kept)
	s.finish(sendRow{send: one, partition: int64(partition), offset: -1, outcome: outcome, problem: &problem})
}

func (s *SendLog) finish(row sendRow) {
	row.completedUs = nowUs()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !row.settled {
		s.add(row)
	}
}

func (s *SendLog) add(row sendRow) {
	row.settled = true
	s.waiting--
	s.rows = append(s.rows, row)
	switch row.outcome {
	case ok:
		s.acked++
	case fail:
		s.failed++
	default:
		s.unknown++
	}
}

// abandon gives the records without an answer the outcome unknown, and returns their number.
func (s *SendLog) abandon() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	problem, atUs, count := "no answer before the end", nowUs(), s.waiting
	for _, one := range s.inOrder {
		if !one.settled {
			s.add(sendRow{send: one, partition: -1, offset: -1, completedUs: atUs, outcome: unknown, problem: &problem})
		}
	}
	return count
}

func (s *SendLog) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// failures returns the number of sends that did not succeed.
func (s *SendLog) failures() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed + s.unknown
}

// progress returns the fields of the progress event that count records.
func (s *SendLog) progress() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]any{"sent": s.sent, "acked": s.acked, "failed": s.failed, "unknown": s.unknown}
}

// write writes the rows that wait, if there are many, if the last write is long ago, or if `now` is set.
func (s *SendLog) write(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock() // counts must not be ahead of rows
	if len(s.rows) == 0 || (!now && len(s.rows) < writeRows && time.Now().Before(s.nextWrite)) {
		return
	}
	s.nextWrite = time.Now().Add(writeEvery)
	rows := s.rows
	s.rows = make([]sendRow, 0, len(rows))
	first := slices.IndexFunc(s.inOrder, func(one *send) bool { return !one.settled })
	if first < 0 {
		first = len(s.inOrder)
	}
	s.inOrder = slices.Delete(s.inOrder, 0, first)
	count := len(rows)
	seqs, txns, partitions := make([]int64, count), make([]int64, count), make([]int64, count)
	offsets, invoked, completed := make([]int64, count), make([]int64, count), make([]int64, count)
	outcomes, problems, keys := make([]*string, count), make([]*string, count), make([]*string, count)
	for i := range rows {
		row := &rows[i]
		seqs[i], txns[i], invoked[i], completed[i] = row.seq, row.txn, row.invokedUs, row.completedUs
		partitions[i], offsets[i] = orMissing(row.partition), orMissing(row.offset)
		outcomes[i], problems[i], keys[i] = &row.outcome, row.problem, row.key
	}
	s.table.write(newBatch().
		put("producer", s.spec.Client).
		int("incarnation", s.spec.Incarnation).
		ints("seq", seqs).
		put("topic", s.spec.Topic).
		foldedInts("partition", partitions).
		ints("offset", offsets).
		foldedInts("txn", txns).
		ints("invoked_us", invoked).
		ints("completed_us", completed).
		foldedTexts("outcome", outcomes).
		foldedTexts("error", problems).
		foldedTexts("key", keys))
}

func orMissing(number int64) int64 {
	if number < 0 {
		return missing
	}
	return number
}
