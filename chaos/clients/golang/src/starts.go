package main

import (
	"log"
	"time"
)

// Times by which brokers are asked for the first offset, and for the one after the last record.
const (
	oldest int64 = -2
	newest int64 = -1
)

// position is where reading a partition starts.
type position struct {
	offset int64
	source string
}

// brokers answer questions about partitions through the library.
type brokers interface {
	// partitions returns the number of partitions of a topic.
	partitions(topic string) (int32, error)
	// at returns an offset by time: `oldest`, `newest`, or milliseconds since the epoch; below 0 if no record is as new.
	at(partition Partition, time int64) (int64, error)
	// committed returns the position of a partition by the offsets of the group.
	committed(partition Partition) (position, error)
}

// Starts determines where a consumer in assign mode starts.
type Starts struct {
	spec    *Spec
	channel *Channel
	brokers brokers
}

// partitions returns all partitions of the topics.
func (s *Starts) partitions() ([]Partition, error) {
	var found []Partition
	for _, topic := range s.spec.Topics {
		count, err := s.brokers.partitions(topic)
		if err != nil {
			return nil, err
		}
		for number := range count {
			found = append(found, Partition{topic, number})
		}
	}
	return found, nil
}

// of returns where a partition starts: at its checkpoint, or as the spec says.
func (s *Starts) of(partition Partition) (position, error) {
	if offset, found := s.spec.Checkpoint[partition.String()]; found {
		return position{offset, "checkpoint"}, nil
	}
	if s.spec.Start == "group" {
		return s.brokers.committed(partition)
	}
	if offset, found := s.spec.Offsets[partition.String()]; found {
		return s.existing(partition, offset)
	}
	var offset int64
	var err error
	switch s.spec.Start {
	case "latest":
		offset, err = s.brokers.at(partition, newest)
	case "timestamp":
		offset, err = s.atTime(partition)
	default:
		return s.first(partition)
	}
	return position{offset, "start"}, err
}

// first returns the first offset of a partition.
func (s *Starts) first(partition Partition) (position, error) {
	offset, err := s.brokers.at(partition, oldest)
	return position{offset, "start"}, err
}

// existing waits until an offset in the future exists.
func (s *Starts) existing(partition Partition, offset int64) (position, error) {
	for !s.channel.stopping() {
		end, err := s.brokers.at(partition, newest)
		if err != nil {
			return position{}, err
		}
		if end >= offset {
			break
		}
		sleep(napS, s.channel.stop)
	}
	return position{offset, "start"}, nil
}

// atTime returns the first offset at or after the time of the spec, or the end of the partition without one.
func (s *Starts) atTime(partition Partition) (int64, error) {
	for time.Now().UnixMilli() <= s.spec.TimestampMs && sleep(tickS, s.channel.stop) {
	}
	offset, err := s.brokers.at(partition, s.spec.TimestampMs)
	if err == nil && offset < 0 {
		return s.brokers.at(partition, newest)
	}
	return offset, err
}

// all returns where partitions start; nil after the order to stop. Brokers may be down, so it tries again.
func (s *Starts) all(partitions []Partition, startOf func(Partition) (position, error)) map[Partition]position {
	found := map[Partition]position{}
	for _, partition := range partitions {
		if !s.retry(func() (err error) { found[partition], err = startOf(partition); return err }) {
			return nil
		}
	}
	return found
}

// retry repeats a request until it succeeds. It returns false after the order to stop.
func (s *Starts) retry(request func() error) bool {
	for !s.channel.stopping() {
		err := request()
		if err == nil {
			return true
		}
		log.Printf("trying again: %s", describe(err))
		sleep(retryS, s.channel.stop)
	}
	return false
}
