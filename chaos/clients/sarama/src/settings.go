package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// protocol is the version of Kafka that these programs set: the default of older releases is 2.1, without static
// members. It is the oldest release of the brokers.
var protocol = sarama.V2_8_0_0

var strategies = map[string]func() sarama.BalanceStrategy{
	sarama.RangeBalanceStrategyName:      sarama.NewBalanceStrategyRange,
	sarama.RoundRobinBalanceStrategyName: sarama.NewBalanceStrategyRoundRobin,
	sarama.StickyBalanceStrategyName:     sarama.NewBalanceStrategySticky,
}

var partitioners = map[string]sarama.PartitionerConstructor{
	"hash":           sarama.NewHashPartitioner,
	"reference-hash": sarama.NewReferenceHashPartitioner,
	"consistent-crc": sarama.NewConsistentCRCHashPartitioner,
	"random":         sarama.NewRandomPartitioner,
	"roundrobin":     sarama.NewRoundRobinPartitioner,
}

var acks = map[string]sarama.RequiredAcks{
	"waitforall": sarama.WaitForAll, "all": sarama.WaitForAll, "-1": sarama.WaitForAll,
	"waitforlocal": sarama.WaitForLocal, "1": sarama.WaitForLocal,
	"noresponse": sarama.NoResponse, "0": sarama.NoResponse,
}

var initials = map[string]int64{
	"offsetoldest": sarama.OffsetOldest, "oldest": sarama.OffsetOldest,
	"earliest": sarama.OffsetOldest, "-2": sarama.OffsetOldest,
	"offsetnewest": sarama.OffsetNewest, "newest": sarama.OffsetNewest,
	"latest": sarama.OffsetNewest, "-1": sarama.OffsetNewest,
}

var isolations = map[string]sarama.IsolationLevel{
	"readuncommitted": sarama.ReadUncommitted, "read_uncommitted": sarama.ReadUncommitted, "0": sarama.ReadUncommitted,
	"readcommitted": sarama.ReadCommitted, "read_committed": sarama.ReadCommitted, "1": sarama.ReadCommitted,
}

// configOf returns the settings of a client: the defaults of the library, the connection with its security, and the
// settings of the scenario. set holds the paths of the latter.
func configOf(spec *Spec) (config *sarama.Config, set map[string]bool, err error) {
	config, set = sarama.NewConfig(), map[string]bool{}
	if !config.Version.IsAtLeast(protocol) {
		config.Version = protocol
	}
	config.ClientID = spec.Client
	for _, name := range sortedKeys(spec.Config) {
		path, value := name, spec.Config[name]
		if own, common := traits.Names[name]; common {
			path = own
			if strings.HasSuffix(name, ".ms") {
				value = fmt.Sprintf("%vms", value)
			}
		}
		if set[path] {
			return nil, nil, fmt.Errorf("%s is given twice, the second time as %s", path, name)
		}
		set[path] = true
		if err := setField(config, path, value); err != nil {
			return nil, nil, fmt.Errorf("%s = %v: %w", name, spec.Config[name], err)
		}
	}
	_, common := spec.Config["enable.idempotence"]
	if common && config.Producer.Idempotent && !set["Net.MaxOpenRequests"] {
		config.Net.MaxOpenRequests = 1 // what sarama demands of an idempotent producer
	}
	return config, set, nil
}

// setField sets a field by its path, such as Producer.Retry.Max.
func setField(config *sarama.Config, path string, value any) error {
	text := fmt.Sprint(value)
	switch path {
	case "Producer.RequiredAcks":
		return choose(&config.Producer.RequiredAcks, acks, text)
	case "Producer.Partitioner":
		return choose(&config.Producer.Partitioner, partitioners, text)
	case "Producer.Compression":
		return config.Producer.Compression.UnmarshalText([]byte(text))
	case "Consumer.Offsets.Initial":
		return choose(&config.Consumer.Offsets.Initial, initials, text)
	case "Consumer.IsolationLevel":
		return choose(&config.Consumer.IsolationLevel, isolations, text)
	case "Consumer.Group.Rebalance.GroupStrategies":
		var chosen []sarama.BalanceStrategy
		for _, name := range strings.Split(text, ",") {
			var strategy func() sarama.BalanceStrategy
			if err := choose(&strategy, strategies, strings.TrimSpace(name)); err != nil {
				return err
			}
			chosen = append(chosen, strategy())
		}
		config.Consumer.Group.Rebalance.GroupStrategies = chosen
		return nil
	case "Version":
		version, err := sarama.ParseKafkaVersion(text)
		if err == nil {
			config.Version = version
		}
		return err
	}
	return setPlain(config, path, value)
}

func setPlain(config *sarama.Config, path string, value any) error {
	field := reflect.ValueOf(config).Elem()
	for _, name := range strings.Split(path, ".") {
		if field.Kind() != reflect.Struct || !field.FieldByName(name).IsValid() {
			return fmt.Errorf("sarama %s has no setting %s", release(), path)
		}
		field = field.FieldByName(name)
	}
	text := fmt.Sprint(value)
	switch {
	case field.Type() == reflect.TypeFor[time.Duration]():
		duration, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("no duration such as 500ms or 10s")
		}
		field.SetInt(int64(duration))
	case field.CanInt():
		number, err := strconv.ParseInt(text, 10, field.Type().Bits())
		if err != nil {
			return fmt.Errorf("no whole number of %d bits", field.Type().Bits())
		}
		field.SetInt(number)
	case field.Kind() == reflect.Bool:
		flag, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("neither true nor false")
		}
		field.SetBool(flag)
	case field.Kind() == reflect.String:
		if _, number := value.(json.Number); number {
			return fmt.Errorf("no text")
		}
		field.SetString(text)
	default:
		return fmt.Errorf("a scenario cannot set a field of the type %s", field.Type())
	}
	return nil
}
