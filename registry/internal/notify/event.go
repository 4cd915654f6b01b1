package notify

import (
	"encoding/json"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// Action is what happened.
type Action string

// The actions, as distribution names them.
const (
	Push   Action = "push"
	Pull   Action = "pull"
	Mount  Action = "mount"
	Delete Action = "delete"
)

// Version is the form of an event. The two differ in the media type and in what
// a target without content shows.
type Version string

// The versions.
const (
	V1 Version = "v1" // of distribution 2.8: what is empty is left out
	V2 Version = "v2" // of distribution 3: mediaType, digest and size are always there
)

// MediaType is the Content-Type of a request with such events.
func (v Version) MediaType() string {
	return "application/vnd.docker.distribution.events." + string(v) + "+json"
}

// Event is one thing that happened. Whoever reports it leaves ID, Time and
// Source empty.
type Event struct {
	ID      string
	Time    time.Time
	Action  Action
	Target  Target
	Request Request
	Actor   string // user name, "" if nobody in particular
	Source  Source
}

// Target is what it happened to. One with neither digest nor tag is a whole
// repository.
type Target struct {
	MediaType      string
	Digest         oci.Digest
	Size           int64
	Repository     oci.Name
	FromRepository oci.Name // of a mount, "" if nobody said
	URL            string
	Tag            oci.Tag
	// Manifest is the content of a manifest, out of which the references are
	// read if the configuration asks for them. Nobody changes it.
	Manifest []byte
}

// Request is what the event came of.
type Request struct {
	ID        string `json:"id"`
	Addr      string `json:"addr,omitempty"`
	Host      string `json:"host,omitempty"`
	Method    string `json:"method"`
	UserAgent string `json:"useragent"`
}

// Source is the registry that tells.
type Source struct {
	Addr       string `json:"addr,omitempty"`
	InstanceID string `json:"instanceID,omitempty"`
}

// Bounds of what comes from clients, in bytes; the second is of an event with
// references, which indentation may make seven times as large on the wire.
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

// wireTarget has pointers where the versions differ.
type wireTarget struct {
	MediaType      *string      `json:"mediaType,omitempty"`
	Digest         *oci.Digest  `json:"digest,omitempty"`
	Size           *int64       `json:"size,omitempty"`
	Length         int64        `json:"length,omitempty"`
	Repository     oci.Name     `json:"repository,omitempty"`
	FromRepository oci.Name     `json:"fromRepository,omitempty"`
	URL            string       `json:"url,omitempty"`
	Tag            oci.Tag      `json:"tag,omitempty"`
	References     []descriptor `json:"references,omitempty"`
}

type wireActor struct {
	Name string `json:"name,omitempty"`
}

// envelope is the body of a request.
type envelope struct {
	Events []wireEvent `json:"events"`
}

// encode is the envelope with this one event, compact.
func (e *Event) encode(v Version, references bool) ([]byte, error) {
	e.bound()
	w := wireEvent{
		ID: e.ID, Timestamp: e.Time, Action: e.Action,
		Target: wireTarget{
			MediaType: present(v, e.Target.MediaType), Digest: present(v, e.Target.Digest), Size: present(v, e.Target.Size),
			Length: e.Target.Size, Repository: e.Target.Repository, FromRepository: e.Target.FromRepository,
			URL: e.Target.URL, Tag: e.Target.Tag,
		},
		Request: e.Request, Actor: wireActor{e.Actor}, Source: e.Source,
	}
	if references {
		w.Target.References = readReferences(v, e.Target.Manifest)
	}
	body, err := json.Marshal(envelope{[]wireEvent{w}})
	if err == nil && len(body) > maxReferences && w.Target.References != nil {
		return e.encode(v, false)
	}
	return body, err
}

// present is nil for what the version leaves out.
func present[T comparable](v Version, value T) *T {
	var none T
	if v == V1 && value == none {
		return nil
	}
	return &value
}

// bound cuts what a client may have made long.
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

// readReferences is what the manifest refers to: config and layers, or the
// manifests of an index. The manifest was checked when it was pushed; of one that
// cannot be read nothing is told. Distribution 2.8 says less of them.
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
