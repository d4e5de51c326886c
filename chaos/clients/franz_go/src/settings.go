package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// settings are options of a client, and the options that the programs have to know.
type settings struct {
	options []kgo.Opt
	// given has the names of the settings that the scenario gives, by the names of the library.
	given     map[string]string
	committed bool // isolation.level is read_committed
}

// makers make the options that a scenario can set, by the names of their functions in the package kgo.
var makers = map[string]func(text string) (kgo.Opt, error){
	"AllowAutoTopicCreation":              flag(kgo.AllowAutoTopicCreation),
	"AutoCommitInterval":                  duration(kgo.AutoCommitInterval),
	"Balancers":                           balancers,
	"BrokerMaxReadBytes":                  size(kgo.BrokerMaxReadBytes),
	"BrokerMaxWriteBytes":                 size(kgo.BrokerMaxWriteBytes),
	"ConnIdleTimeout":                     duration(kgo.ConnIdleTimeout),
	"ConsumeResetOffset":                  chosen(resets, func(to kgo.Offset) kgo.ConsumerOpt { return kgo.ConsumeResetOffset(to) }),
	"DialTimeout":                         duration(kgo.DialTimeout),
	"DisableFetchSessions":                flag(kgo.DisableFetchSessions),
	"DisableIdempotentWrite":              flag(kgo.DisableIdempotentWrite),
	"FetchIsolationLevel":                 chosen(isolations, kgo.FetchIsolationLevel),
	"FetchMaxBytes":                       size(kgo.FetchMaxBytes),
	"FetchMaxPartitionBytes":              size(kgo.FetchMaxPartitionBytes),
	"FetchMaxWait":                        duration(kgo.FetchMaxWait),
	"FetchMinBytes":                       size(kgo.FetchMinBytes),
	"HeartbeatInterval":                   duration(kgo.HeartbeatInterval),
	"InstanceID":                          func(text string) (kgo.Opt, error) { return kgo.InstanceID(text), nil },
	"MaxBufferedBytes":                    count(kgo.MaxBufferedBytes),
	"MaxBufferedRecords":                  count(kgo.MaxBufferedRecords),
	"MaxConcurrentFetches":                count(kgo.MaxConcurrentFetches),
	"MaxProduceRequestsInflightPerBroker": count(kgo.MaxProduceRequestsInflightPerBroker),
	"MetadataMaxAge":                      duration(kgo.MetadataMaxAge),
	"MetadataMinAge":                      duration(kgo.MetadataMinAge),
	"ProduceRequestTimeout":               duration(kgo.ProduceRequestTimeout),
	"ProducerBatchCompression":            chosen(compressions, oneCompression),
	"ProducerBatchMaxBytes":               size(kgo.ProducerBatchMaxBytes),
	"ProducerLinger":                      duration(kgo.ProducerLinger),
	"Rack":                                func(text string) (kgo.Opt, error) { return kgo.Rack(text), nil },
	"RebalanceTimeout":                    duration(kgo.RebalanceTimeout),
	"RecordDeliveryTimeout":               duration(kgo.RecordDeliveryTimeout),
	"RecordPartitioner":                   chosen(partitioners, kgo.RecordPartitioner),
	"RecordRetries":                       count(kgo.RecordRetries),
	"RequestRetries":                      count(kgo.RequestRetries),
	"RequestTimeoutOverhead":              duration(kgo.RequestTimeoutOverhead),
	"RequiredAcks":                        chosen(acks, kgo.RequiredAcks),
	"RetryTimeout":                        duration(kgo.RetryTimeout),
	"SessionTimeout":                      duration(kgo.SessionTimeout),
	"StopProducerOnDataLossDetected":      flag(kgo.StopProducerOnDataLossDetected),
	"UnknownTopicRetries":                 count(kgo.UnknownTopicRetries),
}

var acks = map[string]kgo.Acks{
	"allisracks": kgo.AllISRAcks(), "all": kgo.AllISRAcks(), "-1": kgo.AllISRAcks(),
	"leaderack": kgo.LeaderAck(), "1": kgo.LeaderAck(),
	"noack": kgo.NoAck(), "0": kgo.NoAck(),
}

var resets = map[string]kgo.Offset{
	"atstart": kgo.NewOffset().AtStart(), "earliest": kgo.NewOffset().AtStart(),
	"atend": kgo.NewOffset().AtEnd(), "latest": kgo.NewOffset().AtEnd(),
}

var isolations = map[string]kgo.IsolationLevel{
	"readuncommitted": kgo.ReadUncommitted(), "read_uncommitted": kgo.ReadUncommitted(),
	"readcommitted": kgo.ReadCommitted(), "read_committed": kgo.ReadCommitted(),
}

var compressions = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var partitioners = map[string]kgo.Partitioner{
	"stickykey": kgo.StickyKeyPartitioner(nil), "sticky": kgo.StickyPartitioner(),
	"roundrobin": kgo.RoundRobinPartitioner(), "leastbackup": kgo.LeastBackupPartitioner(),
	"uniformbytes": kgo.UniformBytesPartitioner(64<<10, true, true, nil),
}

var strategies = map[string]kgo.GroupBalancer{
	"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// settingsOf returns the options for the settings of the scenario.
func settingsOf(spec *Spec) (*settings, error) {
	s := &settings{given: map[string]string{}}
	for _, name := range sortedKeys(spec.Config) {
		if err := s.set(name, fmt.Sprint(spec.Config[name])); err != nil {
			return nil, fmt.Errorf("%s = %v: %w", name, spec.Config[name], err)
		}
	}
	return s, s.chooseProtocol(spec)
}

func (s *settings) set(name, text string) error {
	if strings.HasPrefix(name, "group.protocol") || name == "group.remote.assignor" {
		return nil // see chooseProtocol
	}
	own := name
	if found, common := traits.Names[name]; common {
		own = found
		if strings.HasSuffix(name, ".ms") {
			text += "ms"
		}
		if name == "enable.idempotence" { // the option disables it
			on, err := strconv.ParseBool(text)
			if err != nil {
				return fmt.Errorf("neither true nor false")
			}
			text = strconv.FormatBool(!on)
		}
	}
	make, known := makers[own]
	if !known {
		return fmt.Errorf("these programs know no option %s of franz-go", own)
	}
	if _, twice := s.given[own]; twice {
		return fmt.Errorf("given twice")
	}
	s.given[own] = text
	option, err := make(text)
	if err == nil && option != nil {
		s.options = append(s.options, option)
	}
	s.committed = s.committed || own == "FetchIsolationLevel" && strings.Contains(strings.ToLower(text), "committed") &&
		!strings.Contains(strings.ToLower(text), "uncommitted")
	return err
}

// flag is for options without an argument; false is their absence.
func flag[O kgo.Opt](option func() O) func(string) (kgo.Opt, error) {
	return func(text string) (kgo.Opt, error) {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("neither true nor false")
		}
		if !on {
			return nil, nil
		}
		return option(), nil
	}
}

func duration[O kgo.Opt](option func(time.Duration) O) func(string) (kgo.Opt, error) {
	return func(text string) (kgo.Opt, error) {
		found, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("no duration such as 500ms or 10s")
		}
		return option(found), nil
	}
}

func count[O kgo.Opt](option func(int) O) func(string) (kgo.Opt, error) {
	return func(text string) (kgo.Opt, error) {
		found, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("no whole number")
		}
		return option(found), nil
	}
}

func size[O kgo.Opt](option func(int32) O) func(string) (kgo.Opt, error) {
	return func(text string) (kgo.Opt, error) {
		found, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("no whole number of 32 bits")
		}
		return option(int32(found)), nil
	}
}

func chosen[T any, O kgo.Opt](known map[string]T, option func(T) O) func(string) (kgo.Opt, error) {
	return func(text string) (kgo.Opt, error) {
		var value T
		if err := choose(&value, known, text); err != nil {
			return nil, err
		}
		return option(value), nil
	}
}

func oneCompression(codec kgo.CompressionCodec) kgo.ProducerOpt {
	return kgo.ProducerBatchCompression(codec)
}

func balancers(text string) (kgo.Opt, error) {
	var chosen []kgo.GroupBalancer
	for _, name := range strings.Split(text, ",") {
		var balancer kgo.GroupBalancer
		if err := choose(&balancer, strategies, strings.TrimSpace(name)); err != nil {
			return nil, err
		}
		chosen = append(chosen, balancer)
	}
	return kgo.Balancers(chosen...), nil
}
