package config

import (
	"net/http"
	"time"

	"slipway/shared/config"
)

// Health describes the health checks.
type Health struct {
	StorageDriver StorageCheck `key:"storagedriver"`
	Files         []FileCheck  `key:"file" alias:"filecheckers"`
	HTTP          []HTTPCheck  `key:"http" alias:"httpcheckers"`
	TCP           []TCPCheck   `key:"tcp" alias:"tcpcheckers"`
}

// StorageCheck reads and, unless read-only, writes the storage.
type StorageCheck struct {
	Enabled   bool          `key:"enabled" doc:"Check that the storage can be read and written."`
	Interval  time.Duration `key:"interval" doc:"Time between two checks; of a bucket while it fails and after a failed operation, otherwise five minutes."`
	Threshold int           `key:"threshold" min:"0" doc:"Consecutive failures that turn it red; 0 means 1."`
}

// FileCheck is red while the file exists.
type FileCheck struct {
	File      string        `key:"file" doc:"File whose existence makes the registry unhealthy."`
	Interval  time.Duration `key:"interval" min:"1" doc:"Time between two checks."`
	Threshold int           `key:"threshold" min:"0" doc:"Consecutive failures that turn it red; 0 means 1."`
}

// HTTPCheck asks a URL.
type HTTPCheck struct {
	URI        string                     `key:"uri" doc:"URL to send HEAD to."`
	StatusCode int                        `key:"statuscode" doc:"Status that is healthy."`
	Headers    map[string][]config.Secret `key:"headers" doc:"Headers of the request."`
	Timeout    time.Duration              `key:"timeout" min:"0" doc:"Time limit; 0 means the interval."`
	Interval   time.Duration              `key:"interval" min:"1" doc:"Time between two checks."`
	Threshold  int                        `key:"threshold" min:"0" doc:"Consecutive failures that turn it red; 0 means 1."`
}

// Header returns the header of the request.
func (c *HTTPCheck) Header() http.Header { return reveal(c.Headers) }

// reveal is headers as they are sent.
func reveal(headers map[string][]config.Secret) http.Header {
	h := make(http.Header, len(headers))
	for name, values := range headers {
		for _, v := range values {
			h.Add(name, v.Reveal())
		}
	}
	return h
}

// TCPCheck connects.
type TCPCheck struct {
	Addr      string        `key:"addr" doc:"Address to connect to, host:port."`
	Timeout   time.Duration `key:"timeout" min:"0" doc:"Time limit; 0 means the interval."`
	Interval  time.Duration `key:"interval" min:"1" doc:"Time between two checks."`
	Threshold int           `key:"threshold" min:"0" doc:"Consecutive failures that turn it red; 0 means 1."`
}
