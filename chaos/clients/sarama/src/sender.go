package main

import (
	"sync"

	"github.com/IBM/sarama"
)

// sender passes records to one of the producers of the library, which answers in the send log.
type sender interface {
	// send blocks while the library takes no record; false after `ended`.
	send(message *sarama.ProducerMessage, ended <-chan struct{}) bool
	// close asks for the last answers, and returns without waiting for them.
	close()
}

// asyncSender is the asynchronous producer. Its answers arrive in goroutines of their own.
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

func (s *asyncSender) send(message *sarama.ProducerMessage, ended <-chan struct{}) bool {
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

func (s *syncSender) send(message *sarama.ProducerMessage, ended <-chan struct{}) bool {
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
