package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// connection returns the options that every client of a spec has: brokers, name, log and security.
func connection(spec *Spec) ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(spec.Bootstrap, ",")...),
		kgo.ClientID(spec.Client),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
			return time.Now().Format("2006-01-02 15:04:05.000000 ")
		})),
	}
	security := spec.Security
	if security == nil {
		return options, nil
	}
	if strings.HasPrefix(security.Protocol, "SASL_") {
		mechanism, err := mechanism(security)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	if strings.HasSuffix(security.Protocol, "SSL") {
		config, err := encryption(security)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	return options, nil
}

func mechanism(security *Security) (sasl.Mechanism, error) {
	password, err := secret(security.Password)
	if err != nil {
		return nil, err
	}
	switch security.Mechanism {
	case "PLAIN":
		return plain.Auth{User: security.Username, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: security.Username, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: security.Username, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("mechanism: these programs have no %s", security.Mechanism)
}
