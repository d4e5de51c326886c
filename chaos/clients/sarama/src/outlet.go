package main

import (
	"errors"
	"slices"
	"sync"

	"github.com/IBM/sarama"
)

// saramaOutlet is one of the producers of sarama: the synchronous one for the mode `synchronous`, else the asynchronous
// one. `fire_and_forget` differs from `callback` only in what an application would do with an answer; the ledger needs
// it in both cases.
type saramaOutlet struct {
	spec    *Spec
	channel *Channel
	config  *sarama.Config
	client  sarama.Client
	sender
	kafka    sarama.AsyncProducer // nil if synchronous
	messages slab[passed]
}

// sender passes records to one of the producers of the library, which answers in the send log.
type sender interface {
	pass(message *sarama.ProducerMessage, ended <-chan struct{}) bool
	close()
}

func newOutlet(spec *Spec, channel *Channel) (outlet, error) {
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
	return &saramaOutlet{spec: spec, channel: channel, config: config}, config.Validate()
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

func (o *saramaOutlet) attempts() []string {
	if o.config.Producer.Retry.Max == 0 {
		return []string{"attempt"}
	}
	return nil
}

// open also asks for the id of an idempotent producer, so brokers have to answer.
func (o *saramaOutlet) open(log *SendLog) (err error) {
	if o.client == nil {
		if o.client, err = newConnection(o.spec, o.config); err != nil {
			o.client = nil
			return err
		}
	}
	if o.spec.Mode == "synchronous" && o.spec.Transactions == nil {
		producer, err := sarama.NewSyncProducerFromClient(o.client)
		o.sender = &syncSender{producer, log, o.channel}
		return err
	}
	if o.kafka, err = sarama.NewAsyncProducerFromClient(o.client); err == nil {
		o.sender = newAsyncSender(o.kafka, log, o.channel)
	}
	return err
}

// passed is a message and its value.
type passed struct {
	sarama.ProducerMessage
	value sarama.ByteEncoder
}

func (o *saramaOutlet) send(record outgoing, ended <-chan struct{}) bool {
	one := o.messages.next()
	one.value = record.value
	message := &one.ProducerMessage
	message.Topic, message.Offset, message.Partition = record.topic, -1, record.partition
	message.Value, message.Metadata, message.Timestamp = &one.value, record.send, record.timestamp
	if record.key != nil {
		message.Key = sarama.ByteEncoder(record.key)
	}
	return o.pass(message, ended)
}

func (o *saramaOutlet) begin() error { return o.kafka.BeginTxn() }

func (o *saramaOutlet) end(commit bool) error {
	if commit {
		return o.kafka.CommitTxn()
	}
	return o.kafka.AbortTxn()
}

func (o *saramaOutlet) after(err error) next {
	status := o.kafka.TxnStatus()
	switch {
	case status&sarama.ProducerTxnFlagFatalError != 0 || o.isFatal(err):
		return nothing
	case status&sarama.ProducerTxnFlagAbortableError != 0:
		return abort
	}
	return again
}

func (o *saramaOutlet) isFatal(err error) bool {
	return slices.ContainsFunc([]sarama.KError{
		sarama.ErrInvalidProducerEpoch, sarama.ErrProducerFenced, sarama.ErrTransactionalIDAuthorizationFailed,
		sarama.ErrClusterAuthorizationFailed, sarama.ErrInvalidTransactionTimeout, sarama.ErrUnsupportedVersion,
	}, func(code sarama.KError) bool { return errors.Is(err, code) })
}

// asyncSender is the asynchronous producer. Its answers arrive in separate goroutines.
type asyncSender struct {
	producer sarama.AsyncProducer
	log      *SendLog
	channel  *Channel
	answers  sync.WaitGroup
}

func newAsyncSender(producer sarama.AsyncProducer, log *SendLog, channel *Channel) *asyncSender {
	s := &asyncSender{producer: producer, log: log, channel: channel}
	s.answers.Add(2)
	go func() {
		defer s.answers.Done()
		for message := range producer.Successes() {
			answered(log, channel, message, message.Offset, nil)
		}
	}()
	go func() {
		defer s.answers.Done()
		for problem := range producer.Errors() {
			answered(log, channel, problem.Msg, -1, problem.Err)
		}
	}()
	return s
}

func (s *asyncSender) pass(message *sarama.ProducerMessage, ended <-chan struct{}) bool {
	select { // one channel costs less than two
	case s.producer.Input() <- message:
		return true
	default:
	}
	select {
	case s.producer.Input() <- message:
		return true
	case <-ended:
		return false
	}
}

func (s *asyncSender) close() { s.producer.AsyncClose() }

// syncSender is the synchronous producer: a call returns with the answer, or at the order to stop without it.
type syncSender struct {
	producer sarama.SyncProducer
	log      *SendLog
	channel  *Channel
}

func (s *syncSender) pass(message *sarama.ProducerMessage, ended <-chan struct{}) bool {
	returned := make(chan struct{})
	go func() {
		_, offset, err := s.producer.SendMessage(message)
		answered(s.log, s.channel, message, offset, err)
		close(returned)
	}()
	select {
	case <-returned:
	case <-ended:
	}
	return true
}

func (s *syncSender) close() { go s.producer.Close() }

// answered writes down an answer, unless the application ignores them.
func answered(log *SendLog, channel *Channel, message *sarama.ProducerMessage, offset int64, err error) {
	if channel.ignoringReports.Load() {
		return
	}
	one := message.Metadata.(*send)
	if err != nil {
		log.refused(one, message.Partition, err)
	} else {
		log.succeeded(one, message.Partition, offset)
	}
}
