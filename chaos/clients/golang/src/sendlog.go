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

// send is a record passed to the library, and its row. settled: it has its outcome, or it was taken back.
type send struct {
	seq, txn, invokedUs            int64
	partition, offset, completedUs int64
	key, problem                   *string
	outcome                        string
	settled                        bool
}

// SendLog writes `sends` for one incarnation of a client: one row for each record passed to the library.
type SendLog struct {
	spec                         *Spec
	table                        *Table
	kept                         []string
	mu                           sync.Mutex
	waiting                      int     // sends without an answer
	inOrder                      []*send // since the first of them
	rows                         []*send // with an outcome
	numbers                      []int64 // one column of them
	texts                        []*string
	sent, acked, failed, unknown int64
	nextWrite                    time.Time
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
	s.finish(one, int64(partition), offset, ok, nil)
}

// refused records a send that ended with an error; see `sendOutcome`.
func (s *SendLog) refused(one *send, partition int32, err error) {
	problem := errorName(err)
	s.finish(one, int64(partition), -1, sendOutcome(err, partition, s.kept), &problem)
}

func (s *SendLog) finish(one *send, partition, offset int64, outcome string, problem *string) {
	atUs := nowUs()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !one.settled {
		one.partition, one.offset, one.completedUs = partition, offset, atUs
		s.add(one, outcome, problem)
	}
}

func (s *SendLog) add(one *send, outcome string, problem *string) {
	one.settled, one.outcome, one.problem = true, outcome, problem
	s.waiting--
	s.rows = append(s.rows, one)
	switch outcome {
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
			one.partition, one.offset, one.completedUs = -1, -1, atUs
			s.add(one, unknown, &problem)
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
	s.table.write(s.batch())
	clear(s.rows)
	s.rows = s.rows[:0]
	first := slices.IndexFunc(s.inOrder, func(one *send) bool { return !one.settled })
	if first < 0 {
		first = len(s.inOrder)
	}
	s.inOrder = slices.Delete(s.inOrder, 0, first)
}

// batch returns the rows that wait.
func (s *SendLog) batch() *Batch {
	batch := newBatch().put("producer", s.spec.Client).int("incarnation", s.spec.Incarnation)
	batch.foldedTexts("topic", s.textColumn(func(one *send) *string { return s.spec.topicOf(one.seq) }))
	batch.ints("seq", s.column(func(one *send) int64 { return one.seq }))
	batch.foldedInts("partition", s.column(func(one *send) int64 { return orMissing(one.partition) }))
	batch.ints("offset", s.column(func(one *send) int64 { return orMissing(one.offset) }))
	batch.foldedInts("txn", s.column(func(one *send) int64 { return one.txn }))
	batch.ints("invoked_us", s.column(func(one *send) int64 { return one.invokedUs }))
	batch.ints("completed_us", s.column(func(one *send) int64 { return one.completedUs }))
	batch.foldedTexts("outcome", s.textColumn(func(one *send) *string { return &one.outcome }))
	batch.foldedTexts("error", s.textColumn(func(one *send) *string { return one.problem }))
	return batch.foldedTexts("key", s.textColumn(func(one *send) *string { return one.key }))
}

// column returns one number of each row, until the next call.
func (s *SendLog) column(of func(*send) int64) []int64 {
	s.numbers = s.numbers[:0]
	for _, one := range s.rows {
		s.numbers = append(s.numbers, of(one))
	}
	return s.numbers
}

// textColumn returns one text of each row, until the next call.
func (s *SendLog) textColumn(of func(*send) *string) []*string {
	s.texts = s.texts[:0]
	for _, one := range s.rows {
		s.texts = append(s.texts, of(one))
	}
	return s.texts
}

func orMissing(number int64) int64 {
	if number < 0 {
		return missing
	}
	return number
}
