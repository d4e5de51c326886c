package main

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

const (
	tickS    = 0.01
	chunk    = 500
	catchUpS = 0.25
	// retryS is the time before a request to the brokers is repeated.
	retryS = 0.2
	// lastAnswersS is the longest wait for answers after the library was asked to close.
	lastAnswersS = 2
	// unpartitioned is the partition of a record for which the library chooses one.
	unpartitioned int32 = -1
)

// outlet is the producer of the library. Each library has a newOutlet.
type outlet interface {
	// open makes the producer, and asks the brokers for what it needs: for an id if it is transactional, which fences its
	// earlier incarnation.
	open(log *SendLog) error
	// send passes a record to the library; the answer goes to the send log. It blocks while the library takes no
	// record; it returns false if `ended` is closed first and the library does not have the record.
	send(record outgoing, ended <-chan struct{}) bool
	// close asks for the last answers, and returns without waiting for them.
	close()
	// attempts returns what all attempts of a send have in common because of the settings: attempt, batch, or nothing.
	attempts() []string
	// isFatal returns whether a producer cannot go on after an error: it is fenced, or may not do this.
	isFatal(err error) bool
	ending
}

// outgoing is a record to send. partition is `unpartitioned`, and timestamp zero, if the library chooses.
type outgoing struct {
	*send
	topic      string
	partition  int32
	key, value []byte
	timestamp  time.Time
}

// Producer sends one seq after the other, at a steady rate or at full speed, plainly or in transactions.
type Producer struct {
	spec      *Spec
	channel   *Channel
	life      *Lifecycle
	log       *SendLog
	sends     slab[send]
	values    values
	out       outlet
	txn       *transaction // nil without transactions
	next      int64
	done      atomic.Bool
	rateSince time.Time
	paced     int64
	stopBy    time.Time
	fatal     error
}

func newProducer(spec *Spec, channel *Channel, life *Lifecycle) (client, error) {
	out, err := newOutlet(spec, channel)
	if err != nil {
		return nil, err
	}
	log, err := newSendLog(spec, slices.Concat(spec.Steady, out.attempts()))
	if err != nil {
		return nil, err
	}
	p := &Producer{spec: spec, channel: channel, life: life, log: log, values: newValues(spec), out: out}
	p.next = spec.FirstSeq
	if spec.Transactions != nil {
		p.txn, err = newTransaction(p)
	}
	return p, err
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
	if !p.open() {
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

// open makes the producer of the library. Brokers may be down, so it tries again.
func (p *Producer) open() bool {
	for !p.channel.stopping() {
		err := p.out.open(p.log)
		if err == nil {
			return p.txn == nil || p.txn.opened()
		}
		if p.out.isFatal(err) {
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
	one := p.sends.next()
	*one = send{seq: p.next, txn: missing, invokedUs: nowUs()}
	if p.txn != nil {
		one.txn = p.txn.number
	}
	record := outgoing{send: one, topic: *p.spec.topicOf(one.seq), partition: unpartitioned}
	number := int64(0)
	if p.spec.Keys > 0 {
		number = int64(keyNumber(uint64(one.seq), p.spec.Seed, p.spec.Keys))
		text := fmt.Sprintf("k%d", number)
		one.key, record.key = &text, []byte(text)
	}
	switch p.spec.Partitioner {
	case "round_robin":
		record.partition = int32(one.seq % p.spec.Partitions)
	case "by_key_number":
		record.partition = int32(number % p.spec.Partitions)
	}
	record.timestamp = p.spec.Timestamps.of(one.invokedUs)
	record.value = p.values.of(one.seq, one.invokedUs, record.key)
	p.log.begin(one)
	if !p.out.send(record, p.channel.stop) {
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
