//go:build serverside

package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// chooseProtocol adds the options for group.protocol=consumer (KIP-848). The balancer chooses the assignor of the
// brokers: range, or uniform for sticky.
func (s *settings) chooseProtocol(spec *Spec) error {
	protocol := "classic"
	if given, set := spec.Config["group.protocol"]; set {
		protocol = strings.ToLower(fmt.Sprint(given))
	}
	switch protocol {
	case "classic":
		return nil
	case "consumer":
	default:
		return fmt.Errorf("group.protocol = %s: not one of classic, consumer", protocol)
	}
	balancer := kgo.StickyBalancer()
	if assignor, set := spec.Config["group.remote.assignor"]; set {
		known := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "uniform": kgo.StickyBalancer()}
		if err := choose(&balancer, known, fmt.Sprint(assignor)); err != nil {
			return fmt.Errorf("group.remote.assignor = %v: %w", assignor, err)
		}
	}
	s.options = append(s.options, kgo.ServerSideBalancer(), kgo.Balancers(balancer))
	return nil
}
