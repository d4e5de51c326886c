package main

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// room is the number of records that the library takes without blocking, below its limit in every release.
	room = 5000
	// openS is the longest wait for a producer id before the attempt is reported.
	openS = 10 * time.Second
)

// franzOutlet is a producer of franz-go: `synchronous` is ProduceSync, the other modes are Produce with a promise.
type franzOutlet struct {
	spec     *Spec
	channel  *Channel
	settings *settings
	options  []kgo.Opt
	client   *kgo.Client
	log      *SendLog
	ended    context.Context
	room     int64
	acks     bool
}

func newOutlet(spec *Spec, channel *Channel) (outlet, error) {
	settings, err := settingsOf(spec)
	if err != nil {
		return nil, err
	}
	options, err := connection(spec)
	if err != nil {
		return nil, err
	}
	o := &franzOutlet{spec: spec, channel: channel, settings: settings, room: room, acks: true}
	o.options = append(options, settings.options...)
	if spec.Partitioner != "" { // the application chooses
		o.options = append(o.options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if transactions := spec.Transactions; transactions != nil {
		o.options = append(o.options,
			kgo.TransactionalID(transactions.ID), kgo.TransactionTimeout(seconds(transactions.TimeoutS)))
	}
	if limit, set := settings.given["MaxBufferedRecords"]; set {
		records, _ := strconv.ParseInt(limit, 10, 64)
		o.room = min(o.room, records)
	}
	if _, set := settings.given["MaxBufferedBytes"]; set {
		o.room = 0
	}
	if given, set := settings.given["RequiredAcks"]; set {
		o.acks = given != "0" && given != "NoAck"
	}
	o.ended = afterStop(channel, spec.StopWithinS)
	return o, kgo.ValidateOpts(o.options...)
}

// afterStop returns a context that is done some time after the order to stop.
func afterStop(channel *Channel, waitS float64) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-channel.stop
		time.Sleep(seconds(waitS))
		cancel()
	}()
	return ctx
}

// attempts returns that an idempotent producer sends a batch again with the same records.
func (o *franzOutlet) attempts() []string {
	if o.settings.given["DisableIdempotentWrite"] == "true" {
		return nil
	}
	return []string{"batch"}
}

func (o *franzOutlet) open(log *SendLog) (err error) {
	if o.client == nil {
		if o.client, err = kgo.NewClient(o.options...); err != nil {
			return err
		}
		o.log = log
	}
	if o.spec.Transactions != nil {
		ctx, cancel := context.WithTimeout(o.ended, openS)
		defer cancel()
		_, _, err = o.client.ProducerID(ctx)
	}
	return err
}

func (o *franzOutlet) send(record outgoing, ended <-chan struct{}) bool {
	one := &kgo.Record{Topic: record.topic, Partition: record.partition, Key: record.key, Value: record.value}
	one.Timestamp = record.timestamp
	if o.spec.Mode == "synchronous" && o.spec.Transactions == nil {
		return o.pass(ended, func() {
			result := o.client.ProduceSync(context.Background(), one)[0]
			o.answered(record.send, result.Record, result.Err)
		})
	}
	produce := func() {
		o.client.Produce(context.Background(), one, func(answer *kgo.Record, err error) {
			o.answered(record.send, answer, err)
		})
	}
	if o.client.BufferedProduceRecords() < o.room {
		produce()
		return true
	}
	return o.pass(ended, produce)
}

// pass runs a call that may block. At the order to stop it does not wait for it; the library has the record.
func (o *franzOutlet) pass(ended <-chan struct{}, call func()) bool {
	returned := make(chan struct{})
	go func() {
		call()
		close(returned)
	}()
	select {
	case <-returned:
	case <-ended:
	}
	return true
}

// answered writes down an answer, unless the application ignores them.
func (o *franzOutlet) answered(one *send, record *kgo.Record, err error) {
	switch {
	case o.channel.ignoringReports.Load():
	case err != nil:
		o.log.refused(one, record.Partition, err)
	case !o.acks:
		o.log.succeeded(one, record.Partition, -1)
	default:
		o.log.succeeded(one, record.Partition, record.Offset)
	}
}

// close also fails the records that are left, in a goroutine, as it waits for requests.
func (o *franzOutlet) close() { go o.client.Close() }

func (o *franzOutlet) begin() error { return o.client.BeginTransaction() }

func (o *franzOutlet) end(commit bool) error {
	if commit {
		return o.client.EndTransaction(o.ended, kgo.TryCommit)
	}
	if err := o.client.AbortBufferedRecords(o.ended); err != nil {
		return err
	}
	return o.client.EndTransaction(o.ended, kgo.TryAbort)
}

// after follows the documentation of EndTransaction: it refuses a commit after a failed record, and where the outcome is
// not known, the library can only abort.
func (o *franzOutlet) after(err error) next {
	switch {
	case o.isFatal(err):
		return nothing
	case isOneOf(err, kerr.OperationNotAttempted, kerr.TransactionAbortable):
		return abort
	}
	return abortUnclear
}

func (o *franzOutlet) isFatal(err error) bool {
	return isOneOf(err,
		kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState,
		kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.InvalidTransactionTimeout,
		kerr.UnsupportedVersion)
}
