package main

import (
	"log"
	"time"
)

// napS is the time before a coordinator is asked again, and the longest wait without a look at orders.
const napS = 0.05

// ending is what a producer of the library does with transactions.
type ending interface {
	begin() error
	end(commit bool) error
	// after returns what can follow an error of end.
	after(err error) next
}

// next is what can follow when a transaction has not ended.
type next int

const (
	again next = iota // the same call
	abort
	abortUnclear // an abort, although the transaction may be committed already
	nothing      // the producer cannot go on
)

// transaction ends the transactions of a producer, and writes `transactions`.
type transaction struct {
	*Producer
	table          *Table
	number         int64
	open           bool
	beganUs        int64
	failuresBefore int64
}

func newTransaction(producer *Producer) (*transaction, error) {
	table, err := newTable(producer.spec, "transactions")
	return &transaction{Producer: producer, table: table}, err
}

// opened chooses the first seq. The earlier incarnation is fenced now. It may still write rows of its last
// transaction, or have been killed before: a later one leaves out as many numbers as that can have records.
func (t *transaction) opened() bool {
	next, err := nextSeq(t.spec)
	if err != nil {
		t.fatal = err
		return false
	}
	if t.spec.Incarnation > 1 {
		t.next = max(t.next, next) + t.spec.Transactions.Records
	}
	return true
}

func (t *transaction) run() {
	for t.next < t.spec.Records && !t.ending() {
		if err := t.begin(); err != nil {
			t.fatal = err
			return
		}
		t.sendUntil(min(t.next+t.spec.Transactions.Records, t.spec.Records))
		t.end()
		t.done.Store(t.next >= t.spec.Records)
	}
	t.done.Store(t.next >= t.spec.Records)
}

func (t *transaction) begin() error {
	if err := t.out.begin(); err != nil {
		return err
	}
	t.number++
	t.open, t.beganUs = true, nowUs()
	t.failuresBefore = t.log.failures()
	return nil
}

// mustAbort returns whether a record of the open transaction failed.
func (t *transaction) mustAbort() bool { return t.open && t.log.failures() > t.failuresBefore }

// end waits for all answers, holds the transaction open, then ends it and writes its row.
func (t *transaction) end() {
	t.waitForAnswers()
	for until := time.Now().Add(seconds(t.spec.Transactions.HoldS)); time.Now().Before(until) && !t.mustEnd(); {
		sleep(tickS, t.channel.stop)
	}
	t.log.write(true)
	every := t.spec.Transactions.AbortEvery
	planned := every > 0 && t.number%every == 0
	commit := !planned && !t.mustAbort() && t.log.inFlight() == 0
	requestedUs := nowUs()
	outcome := t.callEnd(commit)
	t.open = false
	t.log.write(true)
	t.table.write(newBatch().
		put("producer", t.spec.Client).
		int("incarnation", t.spec.Incarnation).
		int("txn", t.number).
		put("outcome", outcome).
		int("began_us", t.beganUs).
		int("ended_us", nowUs()).
		int("requested_us", requestedUs))
}

// callEnd returns how the transaction ended. The library repeats a request that a coordinator did not answer, and after
// that the same call is repeated. What the broker refuses is aborted, if the library still can.
func (t *transaction) callEnd(commit bool) string {
	outcome := "aborted"
	if commit {
		outcome = "committed"
	}
	for {
		err := t.out.end(commit)
		if err == nil {
			return outcome
		}
		log.Printf("transaction %d has not ended: %s", t.number, describe(err))
		follows := t.out.after(err)
		switch {
		case follows == nothing || t.givingUp():
			t.fatal = err
			return unknown
		case commit && follows == abort:
			commit, outcome = false, "aborted"
		case commit && follows == abortUnclear:
			commit, outcome = false, unknown
		default:
			sleep(napS, nil)
		}
	}
}
