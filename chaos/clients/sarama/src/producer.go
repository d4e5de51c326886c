package main

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

const (
	tickS    = 0.01
	chunk    = 500
	catchUpS = 0.25
	// lastAnswersS is the longest wait for answers after the library was told to close.
	lastAnswersS = 2
)

// Producer sends one seq after the other, at a steady rate or at full speed, plainly or in transactions.
//
// The mode `synchronous` is the synchronous producer of the library, the others are the asynchronous one.
// `fire_and_forget` differs from `callback` only in what an application would do with an answer; the ledger needs it in
// both cases.
type Producer struct {
	spec      *Spec
	channel   *Channel
	life      *Lifecycle
	config    *sarama.Config
	log       *SendLog
	values    values
	out       sender
	txn       *transaction // nil without transactions
	next      int64
	done      atomic.Bool
	rateSince time.Time
	paced     int64
	stopBy    time.Time
	fatal     error
}

func newProducer(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	config, set, err := configOf(spec)
	if err != nil {
		return nil, err
	}
	encryption, err := secure(config, spec.Security)
	if err != nil {
		return nil, err
	}
	tapped(config, encryption, nil)
	config.Producer.Return.Successes, config.Producer.Return.Errors = true, true
	if spec.Partitioner != "" { // the application chooses
		config.Producer.Partitioner = sarama.NewManualPartitioner
	}
	if spec.Transactions != nil {
		transactional(config, spec.Transactions, set)
	}
	kept := slices.Clone(spec.Steady)
	if config.Producer.Retry.Max == 0 {
		kept = append(kept, "attempt")
	}
	log, err := newSendLog(spec, kept)
	if err != nil {
		return nil, err
	}
	p := &Producer{spec: spec, channel: channel, life: life, config: config, log: log, values: newValues(spec)}
	p.next = spec.FirstSeq
	if spec.Transactions != nil {
		if p.txn, err = newTransaction(p); err != nil {
			return nil, err
		}
	}
	return p, config.Validate()
}

func (p *Producer) run() error {
	ended := make(chan struct{})
	go func() {
		for sleep(tickS, ended) {
			p.log.write(false)
			p.progress()
			sleep(progressEvery.Seconds()-tickS, ended)
		}
	}()
	defer func() {
		close(ended)
		p.log.write(true)
		p.progress()
	}()
	client := connect(p.spec, p.config, p.channel, p.life)
	if client == nil || !p.open(client) {
		return p.fatal
	}
	if p.spec.Hold {
		select {
		case <-p.channel.start:
		case <-p.channel.stop:
		}
	}
	p.rateSince = time.Now()
	if p.txn != nil {
		p.txn.run()
	} else {
		p.sendUntil(p.spec.Records)
	}
	p.waitForEnd()
	return p.finish()
}

// open makes the producer of the library. An idempotent one asks for its id, so brokers have to answer; the earlier
// incarnation of a transactional one is fenced by it.
func (p *Producer) open(client sarama.Client) bool {
	for !p.channel.stopping() {
		var err error
		if p.spec.Mode == "synchronous" && p.txn == nil {
			var producer sarama.SyncProducer
			if producer, err = sarama.NewSyncProducerFromClient(client); err == nil {
				p.out = &syncSender{producer, p.log, p.channel}
				return true
			}
		} else {
			var producer sarama.AsyncProducer
			if producer, err = sarama.NewAsyncProducerFromClient(client); err == nil {
				p.out = newAsyncSender(producer, p.log, p.channel)
				return p.txn == nil || p.txn.opened(producer)
			}
		}
		if isFatal(err) {
			p.fatal = err
			return false
		}
		p.life.report(describe(err))
		sleep(retryS, p.channel.stop)
	}
	return false
}

func (p *Producer) progress() {
	fields := p.log.progress()
	fields["done"] = p.done.Load() && p.log.inFlight() == 0
	p.channel.progress(fields)
}

func (p *Producer) ending() bool { return p.channel.stopping() || p.fatal != nil }

// sendUntil sends up to a seq, unless the producer ends or a transaction must be aborted.
func (p *Producer) sendUntil(end int64) {
	for p.next < end && !p.mustEnd() {
		due := min(p.due(), end-p.next)
		for ; due > 0 && !p.mustEnd(); due-- {
			if !p.send() {
				return
			}
			p.paced++
		}
		p.log.write(false)
		if p.spec.Rate > 0 {
			sleep(tickS, p.channel.stop)
		}
	}
	p.done.Store(p.next >= p.spec.Records && p.txn == nil)
}

func (p *Producer) mustEnd() bool { return p.ending() || (p.txn != nil && p.txn.mustAbort()) }

// due returns the number of records to send now. After a stall, up to catchUpS of it is caught up.
func (p *Producer) due() int64 {
	if p.spec.Rate == 0 {
		return chunk
	}
	due := int64(time.Since(p.rateSince).Seconds()*p.spec.Rate) - p.paced
	if limit := max(1, int64(p.spec.Rate*catchUpS)); due > limit {
		p.rateSince = p.rateSince.Add(seconds(float64(due-limit) / p.spec.Rate))
		due = limit
	}
	return max(0, due)
}

// send passes the next record to the library. It returns false if the order to stop arrives while the library takes
// none; the record then has no seq.
func (p *Producer) send() bool {
	one := &send{seq: p.next, txn: missing, invokedUs: nowUs()}
	if p.txn != nil {
		one.txn = p.txn.number
	}
	message := &sarama.ProducerMessage{Topic: p.spec.Topic, Offset: -1, Partition: unpartitioned}
	number := int64(0)
	var key []byte
	if p.spec.Keys > 0 {
		number = int64(keyNumber(uint64(one.seq), p.spec.Seed, p.spec.Keys))
		text := fmt.Sprintf("k%d", number)
		one.key, key = &text, []byte(text)
		message.Key = sarama.ByteEncoder(key)
	}
	switch p.spec.Partitioner {
	case "round_robin":
		message.Partition = int32(one.seq % p.spec.Partitions)
	case "by_key_number":
		message.Partition = int32(number % p.spec.Partitions)
	}
	message.Value = sarama.ByteEncoder(p.values.of(one.seq, one.invokedUs, key))
	message.Metadata = one
	p.log.begin(one)
	if !p.out.send(message, p.channel.stop) {
		p.log.cancel(one)
		return false
	}
	p.next++
	return true
}

// waitForEnd waits for the order to stop, and then for answers, as long as the spec allows.
func (p *Producer) waitForEnd() {
	if p.fatal == nil {
		<-p.channel.stop
	}
	for p.log.inFlight() > 0 && !p.givingUp() {
		time.Sleep(seconds(tickS))
	}
}

// waitForAnswers waits until every record has its answer, or the time to wait is over.
func (p *Producer) waitForAnswers() {
	for p.log.inFlight() > 0 && p.fatal == nil && !p.givingUp() {
		time.Sleep(seconds(tickS / 5))
	}
}

// givingUp returns whether the time to wait after the order to stop, or after a fatal error, is over.
func (p *Producer) givingUp() bool {
	if !p.ending() {
		return false
	}
	if p.stopBy.IsZero() {
		p.stopBy = time.Now().Add(seconds(p.spec.StopWithinS))
	}
	return time.Now().After(p.stopBy)
}

// finish closes the producer, and gives each record without an answer its row.
func (p *Producer) finish() error {
	p.out.close()
	for until := time.Now().Add(lastAnswersS * time.Second); p.log.inFlight() > 0 && time.Now().Before(until); {
		time.Sleep(seconds(tickS))
	}
	if !p.channel.ignoringReports.Load() {
		if left := p.log.abandon(); left > 0 {
			p.life.error(fmt.Sprintf("%d records have no answer", left), false)
		}
	}
	return p.fatal
}
