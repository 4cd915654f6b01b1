package app

import (
	"crypto/tls"
	"slices"
	"testing"

	"slipway/registry/internal/config"
)

func TestTLSOptions_CipherSuites(t *testing.T) {
	name := tls.CipherSuiteName
	distribution := []string{ // its default, without the suites of TLS 1.3, which can't be chosen
		name(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256), name(tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384), name(tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
		name(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), name(tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384), name(tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
	}
	chosen := []string{name(tls.TLS_RSA_WITH_AES_128_CBC_SHA)}
	for _, tt := range []struct {
		tls  config.TLS
		want []string
	}{
		{config.TLS{MinimumTLS: "tls1.2"}, distribution},
		{config.TLS{MinimumTLS: "tls1.3"}, distribution},
		{config.TLS{MinimumTLS: "tls1.1"}, nil}, // no older version has suites of the default
		{config.TLS{MinimumTLS: "tls1.2", CipherSuites: chosen}, chosen},
	} {
		got := slices.Sorted(slices.Values(tlsOptions(&tt.tls, nil).CipherSuites))
		if !slices.Equal(got, tt.want) {
			t.Errorf("minimumtls %s, ciphersuites %v: offers %v", tt.tls.MinimumTLS, tt.tls.CipherSuites, got)
		}
	}
}
