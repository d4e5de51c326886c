package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// encryption returns the settings of TLS.
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
		line := strings.TrimSuffix(string(raw), "\n") // the last line end belongs to the file
		return strings.TrimSuffix(line, "\r"), err
	}
	value, set := os.LookupEnv(name)
	if !set {
		return "", fmt.Errorf("the environment variable %s is not set", name)
	}
	return value, nil
}
