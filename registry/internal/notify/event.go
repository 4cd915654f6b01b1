package notify

import (
	"encoding/json"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// Action is the kind of an event.
type Action string

// The actions, as distribution names them.
const (
	Push   Action = "push"
	Pull   Action = "pull"
	Mount  Action = "mount"
	Delete Action = "delete"
)

// Version is the form of an event. The two differ in the media type and in the
// empty fields of a target.
type Version string

// The versions.
const (
	V1 Version = "v1" // of distribution 2.8, which omits empty fields
	V2 Version = "v2" // of distribution 3, which always sends mediaType, digest and size
)

// MediaType returns the Content-Type of a request with such events.
func (v Version) MediaType() string {
	return "application/vnd.docker.distribution.events." + string(v) + "+json"
}

// Event is one thing that happened. The Notifier sets ID, Time and Source.
type Event struct {
	ID      string
	Time    time.Time
	Action  Action
	Target  Target
	Request Request
	Actor   string // user name, "" if anonymous
	Source  Source
	// Trace is the span of the request, as tracing.Parent returns it.
	Trace string
}

// Target is the object of an event. One with neither digest nor tag is a whole
// repository.
type Target struct {
	MediaType      string
	Digest         oci.Digest
	Size           int64
	Repository     oci.Name
	FromRepository oci.Name // of a mount
	URL            string
	Tag            oci.Tag
	Warning        string // why policy.signatures warns of a manifest that was pulled; "" if it doesn't
	// Manifest is the content of a manifest, from which Options.References reads
	// the references. It must not be modified.
	Manifest []byte
}

// Request is the request that caused the event.
type Request struct {
	ID        string `json:"id"`
	Addr      string `json:"addr,omitempty"`
	Host      string `json:"host,omitempty"`
	Method    string `json:"method"`
	UserAgent string `json:"useragent"`
}

// Source is the registry that sends the event.
type Source struct {
	Addr       string `json:"addr,omitempty"`
	InstanceID string `json:"instanceID,omitempty"`
}

// Limits of what clients send, in bytes. maxReferences is the limit of an event
// with references; indentation may make it seven times as large on the wire.
const (
	maxText       = 1 << 10
	maxReferences = 256 << 10
)

// wireEvent is an event in an envelope.
type wireEvent struct {
	ID        string     `json:"id"`
	Timestamp time.Time  `json:"timestamp"`
	Action    Action     `json:"action"`
	Target    wireTarget `json:"target"`
	Request   Request    `json:"request"`
	Actor     wireActor  `json:"actor"`
	Source    Source     `json:"source"`
}

// wireTarget has pointers for the fields in which the versions differ.
type wireTarget struct {
	MediaType      *string      `json:"mediaType,omitempty"`
	Digest         *oci.Digest  `json:"digest,omitempty"`
	Size           *int64       `json:"size,omitempty"`
	Length         int64        `json:"length,omitempty"`
	Repository     oci.Name     `json:"repository,omitempty"`
	FromRepository oci.Name     `json:"fromRepository,omitempty"`
	URL            string       `json:"url,omitempty"`
	Tag            oci.Tag      `json:"tag,omitempty"`
	Warning        string       `json:"warning,omitempty"`
	References     []descriptor `json:"references,omitempty"`
}

type wireActor struct {
	Name string `json:"name,omitempty"`
}

// envelope is the body of a request. Traceparent is there only while tracing is on.
type envelope struct {
	Events      []wireEvent `json:"events"`
	Traceparent string      `json:"traceparent,omitempty"`
}

// encode returns the envelope with this one event, compact.
func (e *Event) encode(v Version, references bool) ([]byte, error) {
	e.bound()
	w := wireEvent{
		ID: e.ID, Timestamp: e.Time, Action: e.Action,
		Target: wireTarget{
			MediaType: present(v, e.Target.MediaType), Digest: present(v, e.Target.Digest), Size: present(v, e.Target.Size),
			Length: e.Target.Size, Repository: e.Target.Repository, FromRepository: e.Target.FromRepository,
			URL: e.Target.URL, Tag: e.Target.Tag, Warning: e.Target.Warning,
		},
		Request: e.Request, Actor: wireActor{e.Actor}, Source: e.Source,
	}
	if references {
		w.Target.References = readReferences(v, e.Target.Manifest)
	}
	body, err := json.Marshal(envelope{[]wireEvent{w}, e.Trace})
	if err == nil && len(body) > maxReferences && w.Target.References != nil {
		return e.encode(v, false)
	}
	return body, err
}

// present returns nil for a value that the version omits.
func present[T comparable](v Version, value T) *T {
	var none T
	if v == V1 && value == none {
		return nil
	}
	return &value
}

// bound shortens the fields that a client fills.
func (e *Event) bound() {
	for _, s := range []*string{&e.Request.ID, &e.Request.Addr, &e.Request.Host, &e.Request.UserAgent, &e.Actor, &e.Target.URL} {
		if len(*s) > maxText {
			*s = strings.ToValidUTF8((*s)[:maxText], "")
		}
	}
}

// descriptor is an entry in references.
type descriptor struct {
	oci.Descriptor
	Data     []byte    `json:"data,omitempty"`
	Platform *platform `json:"platform,omitempty"`
}

type platform struct {
	oci.Platform
	OSVersion  string   `json:"os.version,omitempty"`
	OSFeatures []string `json:"os.features,omitempty"`
}

// readReferences returns the config and layers of a manifest, or the manifests of
// an index. Distribution 2.8 sends fewer fields of them.
func readReferences(v Version, manifest []byte) []descriptor {
	var doc struct {
		Config    *descriptor  `json:"config"`
		Layers    []descriptor `json:"layers"`
		Manifests []descriptor `json:"manifests"`
	}
	if len(manifest) == 0 || json.Unmarshal(manifest, &doc) != nil {
		return nil
	}
	var all []descriptor
	if doc.Config != nil {
		all = append(all, *doc.Config)
	}
	all = append(append(all, doc.Layers...), doc.Manifests...)
	if v == V1 {
		for i := range all {
			all[i].Platform, all[i].Data, all[i].ArtifactType = nil, nil, ""
		}
	}
	return all
}
