package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"hash"
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

// scramClient is one exchange of SCRAM; sarama leaves the mechanism to the application.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func scramClients(newHash func() hash.Hash) func() sarama.SCRAMClient {
	return func() sarama.SCRAMClient { return &scramClient{hash: newHash} }
}

func (s *scramClient) Begin(user, password, authzID string) error {
	// brokers take passwords as they are, without the changes of SASLprep (RFC 4013), which refuses line ends
	client, err := s.hash.NewClientUnprepped(user, password, authzID)
	if err == nil {
		s.conversation = client.NewConversation()
	}
	return err
}

func (s *scramClient) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }

func (s *scramClient) Done() bool { return s.conversation.Done() }
