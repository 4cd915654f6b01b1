package server

import (
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Defaults of Options.
const (
	DefaultReadHeaderTimeout = 20 * time.Second
	DefaultIdleTimeout       = 3 * time.Minute
	DefaultStallTimeout      = 60 * time.Second
	DefaultMinRate           = 128 // bytes a second
	DefaultMaxHeaderBytes    = 64 << 10
)

// Options describes one listening server. Zero durations and sizes stand for
// the defaults above.
type Options struct {
	Name    string // in log lines and errors: "main", "debug"
	Network string // "tcp" (also "") or "unix"
	Addr    string
	Handler http.Handler
	Log     *zap.Logger

	TLS          *TLS // nil serves plain HTTP
	DisableHTTP2 bool // over TLS
	H2C          bool // HTTP/2 without TLS, by prior knowledge

	ReadHeaderTimeout time.Duration
	IdleTimeout       time.Duration
	MaxHeaderBytes    int

	// A client is cut off that within StallTimeout sends less of its body than
	// MinRate (bytes a second) asks for, or takes less of its answer than that, or
	// than 256 KiB. There is no bound on the whole time of a request.
	StallTimeout time.Duration
	MinRate      int64

	// MaxConns bounds the open connections. A further one replaces one that has no
	// request in a handler, of the address with the most connections first, or is
	// refused. 0 is half of the files that the process may open, at most 16384.
	MaxConns int
}

// TLS is the transport security of a server. The files are read again when they
// change; a change that does not load is reported and the former stays.
type TLS struct {
	Certificate  string // PEM file
	Key          string // PEM file
	MinVersion   string // tls1.0 … tls1.3; "" is tls1.2
	CipherSuites []string
	ClientCAs    []string // PEM files
	ClientAuth   string   // "" with ClientCAs is require-and-verify-client-cert
	ACME         *ACME    // in place of Certificate and Key
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.ReadHeaderTimeout <= 0 {
		o.ReadHeaderTimeout = DefaultReadHeaderTimeout
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = DefaultStallTimeout
	}
	if o.MinRate <= 0 {
		o.MinRate = DefaultMinRate
	}
	if o.MaxHeaderBytes <= 0 {
		o.MaxHeaderBytes = DefaultMaxHeaderBytes
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns()
	}
	return o
}
