package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// secure sets SASL, and returns the settings of TLS; nil without TLS.
func secure(config *sarama.Config, security *Security) (*tls.Config, error) {
	if security == nil {
		return nil, nil
	}
	if strings.HasPrefix(security.Protocol, "SASL_") {
		password, err := secret(security.Password)
		if err != nil {
			return nil, err
		}
		sasl := &config.Net.SASL
		sasl.Enable, sasl.User, sasl.Password = true, security.Username, password
		sasl.Mechanism = sarama.SASLMechanism(security.Mechanism)
		switch security.Mechanism {
		case sarama.SASLTypeSCRAMSHA256:
			sasl.SCRAMClientGeneratorFunc = scramClients(sha256.New)
		case sarama.SASLTypeSCRAMSHA512:
			sasl.SCRAMClientGeneratorFunc = scramClients(sha512.New)
		}
	}
	if !strings.HasSuffix(security.Protocol, "SSL") {
		return nil, nil
	}
	return encryption(security)
}

func encryption(security *Security) (*tls.Config, error) {
	config := &tls.Config{}
	if security.CA != "" {
		pem, err := os.ReadFile(security.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no certificate", security.CA)
		}
	}
	if security.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(security.Certificate, security.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if !security.VerifyHostname { // the chain is verified all the same
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
			for _, certificate := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(certificate)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		}
	}
	return config, nil
}

// secret returns the secret that a reference names: env:NAME or file:PATH.
func secret(reference string) (string, error) {
	kind, name, _ := strings.Cut(reference, ":")
	if kind == "file" {
		raw, err := os.ReadFile(name)
		return strings.TrimSpace(string(raw)), err
	}
	value, set := os.LookupEnv(name)
	if !set {
		return "", fmt.Errorf("the environment variable %s is not set", name)
	}
	return value, nil
}

// scramClient is one exchange of SCRAM; sarama leaves the mechanism to the application.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func scramClients(newHash func() hash.Hash) func() sarama.SCRAMClient {
	return func() sarama.SCRAMClient { return &scramClient{hash: newHash} }
}

func (s *scramClient) Begin(user, password, authzID string) error {
	client, err := s.hash.NewClient(user, password, authzID)
	if err == nil {
		s.conversation = client.NewConversation()
	}
	return err
}

func (s *scramClient) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }

func (s *scramClient) Done() bool { return s.conversation.Done() }
