//go:build !serverside

package main

import (
	"fmt"
	"strings"
)

func (s *settings) chooseProtocol(spec *Spec) error {
	if protocol, set := spec.Config["group.protocol"]; set && !strings.EqualFold(fmt.Sprint(protocol), "classic") {
		return fmt.Errorf("group.protocol: franz-go %s has classic only", release())
	}
	return nil
}
