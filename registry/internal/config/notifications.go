package config

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway/shared/config"
	"slipway/shared/plural"
)

// Notifications says who receives events.
type Notifications struct {
	Events    Events     `key:"events" env:"EVENTCONFIG"`
	Queue     EventQueue `key:"queue"`
	Endpoints []Endpoint `key:"endpoints"`
}

// Events is the form of an event.
type Events struct {
	IncludeReferences bool   `key:"includereferences" doc:"Say in the events of manifests what those refer to."`
	Version           string `key:"version" choices:"v1,v2" doc:"Media type and form: v1 (application/vnd.docker.distribution.events.v1+json) as distribution 2.8 sends, v2 as distribution 3 does."`
}

// EventQueue is where events wait.
type EventQueue struct {
	Directory string      `key:"directory" doc:"Directory of the queues, on a disk that persists. With the filesystem as storage unless given docker/registry/v2/slipway/events in the root directory; else, unless given, events wait in memory and are lost when the registry stops."`
	MaxSize   config.Size `key:"maxsize" doc:"Most that may wait for each endpoint. A full queue loses pulls first, then the oldest pushes and deletions."`
}

// Endpoint is a receiver of events.
type Endpoint struct {
	Name              string                     `key:"name" doc:"Name in logs, metrics and registry events. Required; one of its own for each endpoint."`
	Disabled          bool                       `key:"disabled" doc:"Leave this endpoint out. What waits for it goes on waiting."`
	URL               string                     `key:"url" doc:"URL to POST events to. Required."`
	Headers           map[string][]config.Secret `key:"headers" doc:"Headers of the request. They may hold credentials, so their values are not shown."`
	HeadersFile       string                     `key:"headersfile" doc:"File with more headers, a line of the form Name: value each. Read again when it changes. While it is missing, events wait."`
	Secret            config.Secret              `key:"secret" doc:"Signs each request, in X-Slipway-Signature with its time and in X-Hub-Signature-256 without. At least 16 characters."`
	Timeout           time.Duration              `key:"timeout" doc:"Time for an answer; 0 means 5s."`
	Threshold         int                        `key:"threshold" doc:"Failures in a row that are followed by quick tries, ten in the time of backoff; 0 means 10."`
	Backoff           time.Duration              `key:"backoff" doc:"Time between tries after that. It doubles with each failure, up to a minute; 0 means 1s."`
	IgnoredMediaTypes []string                   `key:"ignoredmediatypes" doc:"Media types of targets whose events this endpoint does not receive; application/octet-stream is blobs."`
	Ignore            Ignore                     `key:"ignore"`
}

// Ignore says which events an endpoint does not receive.
type Ignore struct {
	MediaTypes []string `key:"mediatypes" doc:"Media types of targets whose events this endpoint does not receive; application/octet-stream is blobs."`
	Actions    []string `key:"actions" choices:"push,pull,mount,delete" doc:"Actions whose events this endpoint does not receive."`
}

// Header is what the request carries.
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
	maxEndpointName = 80 // it names a directory, where a byte may take three
	maxEndpoints    = 64
	minSecret       = 16 // characters
)

func (n *Notifications) validate(p *config.Problems) {
	if n.Queue.MaxSize < minEventQueue {
		p.Addf("notifications.queue.maxsize", "must be 1MiB or more")
	}
	if d := n.Queue.Directory; d != "" && !filepath.IsAbs(d) {
		p.Addf("notifications.queue.directory", "%q is not an absolute path", d)
	}
	if len(n.Endpoints) > maxEndpoints {
		p.Addf("notifications.endpoints", "are more than %d", maxEndpoints)
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
	if n := utf8.RuneCountInString(e.Secret.Reveal()); n > 0 && n < minSecret {
		p.Addf(at+".secret", "has %s; it must have %d or more: openssl rand -hex 32 makes one", plural.Of(n, "character"), minSecret)
	}
	headers(p, at+".headers", e.Header())
	for name := range e.Headers {
		if strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding") {
			p.Addf(at+".headers."+name, "follows from the body")
		}
	}
	notNegative(p, at+".timeout", e.Timeout)
	notNegative(p, at+".backoff", e.Backoff)
	threshold(p, at+".threshold", e.Threshold)
}
