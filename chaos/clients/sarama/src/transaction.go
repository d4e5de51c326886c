package main

import (
	"errors"
	"log"
	"time"

	"github.com/IBM/sarama"
)

// transaction ends the transactions of a producer, and writes `transactions`.
type transaction struct {
	*Producer
	kafka          sarama.AsyncProducer
	table          *Table
	number         int64
	open           bool
	beganUs        int64
	failuresBefore int64
}

// transactional sets what sarama demands of a transactional producer, unless the scenario sets it.
func transactional(config *sarama.Config, setting *Transactions, set map[string]bool) {
	config.Producer.Transaction.ID = setting.ID
	config.Producer.Transaction.Timeout = seconds(setting.TimeoutS)
	if !set["Producer.Idempotent"] {
		config.Producer.Idempotent = true
	}
	if !set["Producer.RequiredAcks"] {
		config.Producer.RequiredAcks = sarama.WaitForAll
	}
	if !set["Net.MaxOpenRequests"] {
		config.Net.MaxOpenRequests = 1
	}
}

func newTransaction(producer *Producer) (*transaction, error) {
	table, err := newTable(producer.spec, "transactions")
	return &transaction{Producer: producer, table: table}, err
}

// opened takes the producer of the library. The earlier incarnation is fenced now. It may still write rows of its last
// transaction, or have been killed before: a later one leaves out as many numbers as that can have records.
func (t *transaction) opened(kafka sarama.AsyncProducer) bool {
	t.kafka = kafka
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
	if err := t.kafka.BeginTxn(); err != nil {
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
	outcome := t.callEnd(!planned && !t.mustAbort() && t.log.inFlight() == 0)
	t.open = false
	t.log.write(true)
	t.table.write(newBatch().
		put("producer", t.spec.Client).
		int("incarnation", t.spec.Incarnation).
		int("txn", t.number).
		put("outcome", outcome).
		int("began_us", t.beganUs).
		int("ended_us", nowUs()))
}

// callEnd returns how the transaction ended. The library repeats a request that a coordinator did not answer, and after
// that the same call is repeated. What the broker refuses is aborted, if the library still can.
func (t *transaction) callEnd(commit bool) string {
	for {
		call, done := t.kafka.AbortTxn, "aborted"
		if commit {
			call, done = t.kafka.CommitTxn, "committed"
		}
		err := call()
		if err == nil {
			return done
		}
		log.Printf("transaction %d has not ended: %s", t.number, describe(err))
		status := t.kafka.TxnStatus()
		switch {
		case status&sarama.ProducerTxnFlagFatalError != 0 || isFatal(err) || t.givingUp():
			t.fatal = err
			return unknown
		case commit && status&sarama.ProducerTxnFlagAbortableError != 0:
			commit = false
		default:
			sleep(napS, nil)
		}
	}
}

// isFatal returns whether a producer cannot go on after an error: it is fenced, or may not do this.
func isFatal(err error) bool {
	for _, code := range []sarama.KError{
		sarama.ErrInvalidProducerEpoch, sarama.ErrProducerFenced, sarama.ErrTransactionalIDAuthorizationFailed,
		sarama.ErrClusterAuthorizationFailed, sarama.ErrInvalidTransactionTimeout, sarama.ErrUnsupportedVersion,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
