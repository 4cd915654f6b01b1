package config

import (
	"time"

	"slipway/shared/config"
)

// HTTP is the server for clients and the one for debugging.
type HTTP struct {
	Addr           string              `key:"addr" doc:"Address to listen on, host:port, or the path of a unix socket."`
	Net            string              `key:"net" choices:"tcp,unix" doc:"Kind of socket."`
	Prefix         string              `key:"prefix" doc:"Path before /v2/, such as /registry/."`
	Host           string              `key:"host" doc:"URL of the registry for clients. Default: from the request and a proxy's headers."`
	Secret         config.Secret       `key:"secret" doc:"Signs the state of uploads; equal on all replicas. Default: random, with a warning."`
	TrustedProxies []string            `key:"trustedproxies" doc:"Addresses or networks of proxies whose forwarding headers are trusted; unix means peers on a unix socket. Default: none for addresses, all for host and scheme."`
	RelativeURLs   bool                `key:"relativeurls" doc:"Answer with paths instead of URLs in Location."`
	DrainTimeout   time.Duration       `key:"draintimeout" min:"0" doc:"Time for open requests when stopping."`
	Headers        map[string][]string `key:"headers" doc:"Headers added to every answer."`
	UI             UI                  `key:"ui"`
	TLS            *TLS                `key:"tls"`
	Debug          Debug               `key:"debug"`
	HTTP2          HTTP2               `key:"http2"`
	H2C            H2C                 `key:"h2c"`
}

// UI is the pages for people.
type UI struct {
	Enabled bool `key:"enabled" doc:"Serve pages below /ui/, and redirect browsers there from /."`
}

// TLS turns encryption on.
type TLS struct {
	Certificate  string      `key:"certificate" doc:"File of the certificate chain. Reloaded on change."`
	Key          string      `key:"key" doc:"File of the private key."`
	ClientCAs    []string    `key:"clientcas" doc:"CA files for client certificates."`
	ClientAuth   string      `key:"clientauth" choices:"require-and-verify-client-cert,request-client-cert,require-any-client-cert,verify-client-cert-if-given" doc:"Client certificates, which need clientcas; distribution ignores this without them, here it is an error. Default: require-and-verify-client-cert with clientcas."`
	MinimumTLS   string      `key:"minimumtls" choices:"tls1.0,tls1.1,tls1.2,tls1.3" doc:"Oldest protocol version accepted."`
	CipherSuites []string    `key:"ciphersuites" doc:"Cipher suites up to TLS 1.2, by their Go names. Default: ECDHE with AES-GCM or ChaCha20, and CBC if minimumtls is older than tls1.2."`
	LetsEncrypt  LetsEncrypt `key:"letsencrypt"`
}

// LetsEncrypt configures certificates from an ACME authority, in place of certificate and key.
type LetsEncrypt struct {
	CacheFile    string   `key:"cachefile" doc:"Directory that keeps the account and the certificates. Default: the storage, where all replicas find them."`
	Email        string   `key:"email" doc:"Where the authority writes to."`
	Hosts        []string `key:"hosts" doc:"Names to get certificates for. The authority connects to port 443 of each. Required."`
	DirectoryURL string   `key:"directoryurl" doc:"URL of an ACME authority. Default: that of Let's Encrypt."`
}

// Enabled reports whether certificates come from an authority.
func (l LetsEncrypt) Enabled() bool {
	return l.CacheFile != "" || l.Email != "" || len(l.Hosts) > 0 || l.DirectoryURL != ""
}

func (l LetsEncrypt) validate(p *config.Problems) {
	if len(l.Hosts) == 0 {
		p.Addf("http.tls.letsencrypt.hosts", "is required")
	}
	p.ACME("http.tls.letsencrypt", l.Hosts, l.DirectoryURL)
}

// Debug is the plain HTTP server for health and metrics.
type Debug struct {
	Addr       string     `key:"addr" doc:"Address of the debug server, host:port; off unless given."`
	Pprof      bool       `key:"pprof" doc:"Serve profiles at /debug/pprof/ and memory statistics at /debug/vars on the debug server."`
	Prometheus Prometheus `key:"prometheus"`
}

// Prometheus is the metrics page.
type Prometheus struct {
	Enabled bool   `key:"enabled" doc:"Serve metrics on the debug server."`
	Path    string `key:"path" doc:"Path of the metrics."`
}

// HTTP2 is on with TLS unless disabled.
type HTTP2 struct {
	Disabled bool `key:"disabled" doc:"Do not offer HTTP/2 to TLS clients."`
}

// H2C is HTTP/2 without TLS.
type H2C struct {
	Enabled bool `key:"enabled" doc:"Accept HTTP/2 without TLS."`
}

// Limits protect the server from clients that are slow.
type Limits struct {
	StallTimeout time.Duration `key:"stalltimeout" min:"1" doc:"A transfer is ended if it moves too little in this time: 256 KiB to the client, or minrate bytes per second from it."`
	MinRate      config.Size   `key:"minrate" min:"1" doc:"Bytes per second that a client must send, and receive if that exceeds 256 KiB per stalltimeout."`
	MaxConns     int           `key:"maxconns" min:"0" doc:"Most open connections; 0 means half of the files that the process may open, at most 16384. Beyond it the address with the most gives way."`
}
