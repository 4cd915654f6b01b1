package config

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"slipway/shared/config"
)

// Notifications lists the receivers of events.
type Notifications struct {
	Events    Events     `key:"events" alias:"eventconfig"`
	Queue     EventQueue `key:"queue"`
	Endpoints []Endpoint `key:"endpoints"`
}

// Events is the form of an event.
type Events struct {
	IncludeReferences bool   `key:"includereferences" doc:"List the references of manifests in their events."`
	Version           string `key:"version" choices:"v1,v2" doc:"Media type and form: v1 of distribution 2.8, v2 of distribution 3."`
}

// EventQueue holds the events that wait.
type EventQueue struct {
	Directory string      `key:"directory" doc:"Directory of the queue. Default: docker/registry/v2/slipway/events on files, memory with an object store."`
	MaxSize   config.Size `key:"maxsize" doc:"Limit for each endpoint; a full queue loses the oldest events."`
}

// Endpoint is a receiver of events.
type Endpoint struct {
	Name              string                     `key:"name" doc:"Unique name. Required."`
	Disabled          bool                       `key:"disabled" doc:"Send nothing; events keep waiting."`
	URL               string                     `key:"url" doc:"URL to POST events to. Required."`
	Headers           map[string][]config.Secret `key:"headers" doc:"Headers of the request."`
	HeadersFile       string                     `key:"headersfile" doc:"File with more headers, one Name: value per line. While it is missing, events wait."`
	Secret            config.Secret              `key:"secret" doc:"Signs requests (X-Slipway-Signature, X-Hub-Signature-256). At least 16 characters."`
	Timeout           time.Duration              `key:"timeout" min:"0" doc:"Time for an answer; 0 means 5s."`
	Threshold         int                        `key:"threshold" min:"0" doc:"Consecutive failures before backoff applies."`
	Backoff           time.Duration              `key:"backoff" min:"0" doc:"Delay of a retry, doubled up to a minute."`
	IgnoredMediaTypes []string                   `key:"ignoredmediatypes" doc:"Media types without events; application/octet-stream means blobs."`
	Ignore            Ignore                     `key:"ignore"`
}

// Ignore says which events an endpoint does not receive.
type Ignore struct {
	MediaTypes []string `key:"mediatypes" doc:"Media types without events; application/octet-stream means blobs."`
	Actions    []string `key:"actions" choices:"push,pull,mount,delete" doc:"Actions without events."`
}

// Header returns the header of the request.
func (e *Endpoint) Header() http.Header { return reveal(e.Headers) }

func defaultNotifications() Notifications {
	return Notifications{
		Events:    Events{Version: "v1"},
		Queue:     EventQueue{MaxSize: 64 << 20},
		Endpoints: []Endpoint{{Timeout: 5 * time.Second, Threshold: 10, Backoff: time.Second}},
	}
}

// Bounds of what the file may say.
const (
	minEventQueue   = 1 << 20
	maxEndpointName = 80 // bytes
	maxEndpoints    = 64
)

func (n *Notifications) validate(p *config.Problems) {
	if n.Queue.MaxSize < minEventQueue {
		p.Addf("notifications.queue.maxsize", "must be 1MiB or more")
	}
	if d := n.Queue.Directory; d != "" && !filepath.IsAbs(d) {
		p.Addf("notifications.queue.directory", "%q is not an absolute path", d)
	}
	if len(n.Endpoints) > maxEndpoints {
		p.Addf("notifications.endpoints", "at most %d are allowed", maxEndpoints)
	}
	seen := map[string]bool{}
	for i := range n.Endpoints {
		at, e := item("notifications.endpoints", i), &n.Endpoints[i]
		e.validate(p, at)
		if e.Name != "" && seen[e.Name] {
			p.Addf(at+".name", "%q is the name of another endpoint", e.Name)
		}
		seen[e.Name] = true
	}
}

func (e *Endpoint) validate(p *config.Problems, at string) {
	required(p, at+".name", e.Name)
	if len(e.Name) > maxEndpointName {
		p.Addf(at+".name", "is longer than %d bytes", maxEndpointName)
	}
	if strings.ContainsFunc(e.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		p.Addf(at+".name", "%q holds what cannot be printed", e.Name)
	}
	if u, err := url.Parse(e.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		p.Addf(at+".url", "is not a URL such as https://example.org/events")
	}
	if why := config.Weakness(e.Secret.Reveal()); why != "" && !e.Secret.Empty() {
		p.Addf(at+".secret", "%s: openssl rand -hex 32 makes one", why)
	}
	headers(p, at+".headers", e.Header())
	for name := range e.Headers {
		if strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding") {
			p.Addf(at+".headers."+name, "follows from the body")
		}
	}
}
