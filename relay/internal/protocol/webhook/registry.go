package webhook

import (
	"encoding/json"
	"fmt"
	"mime"
	"regexp"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Registry is the notifications of a container registry: a message for each tag that was pushed or deleted, and for each
// repository that was deleted, with the event's id as its key. Requests must be signed with the application's secret,
// or else with what secret returns; without either they need no signature.
func Registry(secret func() string) protocol.Protocol {
	return protocol.Protocol{
		Name: "registry", Routes: protocol.PostAt("/hook/registry"), Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, app protocol.App) (protocol.Parsed, error) {
			if err := isEnvelope(r.Header.Get("Content-Type")); err != nil {
				return protocol.Parsed{}, err
			}
			own, err := hookSecret(app)
			if err == nil {
				if own == "" && secret != nil {
					own = secret()
				}
				err = checkSignature(r, own)
			}
			if err != nil {
				return protocol.Parsed{}, err
			}
			return parseEnvelope(r.Body)
		},
		Reply: reply, Fail: request.WriteError,
	}
}

func isEnvelope(contentType string) error {
	kind, _, err := mime.ParseMediaType(contentType)
	if contentType == "" || err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/vnd.docker.distribution.events.v") && strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return &refusal.Error{Kind: refusal.KindMediaType, Message: "The body must be application/vnd.docker.distribution.events.v1+json, .v2+json or application/json."}
}

// envelope is what a registry posts: distribution's notifications,
// application/vnd.docker.distribution.events.v1+json and .v2+json.
type envelope struct {
	Events []json.RawMessage `json:"events"`
}

// registryEvent is the part of an event that people read.
type registryEvent struct {
	ID     string `json:"id"`
	Action string `json:"action"` // push, pull, mount, delete
	Target struct {
		descriptor
		Repository string       `json:"repository"`
		Tag        string       `json:"tag"`
		References []descriptor `json:"references"`
	} `json:"target"`
	Request struct {
		Host string `json:"host"`
	} `json:"request"`
	Actor struct {
		Name string `json:"name"`
	} `json:"actor"`
}

// descriptor is a piece of content (OCI image specification, descriptors).
type descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	Platform  *platform `json:"platform"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant"`
}

// parseEnvelope reads an envelope. Tagged manifests that were pushed and tags or whole repositories that were deleted make
// a message each, in the order of the events; ignored are blobs, manifests that only another one names, pulls, mounts.
func parseEnvelope(body []byte) (b protocol.Parsed, err error) {
	var in envelope
	if err := request.Unmarshal(body, &in); err != nil {
		return b, notEnvelope(err.Error())
	}
	if in.Events == nil {
		return b, notEnvelope("it has no events")
	}
	if len(in.Events) > maxEvents {
		return b, &refusal.Error{Kind: refusal.KindTooLarge, Message: fmt.Sprintf("An envelope may have %d events.", maxEvents)}
	}
	for i, raw := range in.Events {
		var e registryEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			return protocol.Parsed{}, notEnvelope(fmt.Sprintf("event %d: %v", i, err))
		}
		if !e.isReported() {
			b.Ignored++
			continue
		}
		b.Drafts = append(b.Drafts, e.draft(raw))
	}
	return b, nil
}

func notEnvelope(why string) error {
	return refusal.Invalid("", "The body is not an envelope of a registry's events: "+why+".")
}

// machine is the form of tags that programs make for what belongs to an image: its signature, its bill of materials.
var machine = regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)

const (
	maxPlatforms = 6
	shortDigest  = 12 // characters of a digest's hexadecimal part, as docker shows them
)

// isReported reports whether the event becomes a message: a pushed or deleted tag, or a deleted repository, whose event
// has neither tag nor digest. A deleted manifest doesn't, because each of its tags has an event of its own.
func (e *registryEvent) isReported() bool {
	t := &e.Target
	switch {
	case t.Repository == "":
		return false
	case e.Action == "push":
		return t.Tag != ""
	case e.Action == "delete":
		return t.Tag != "" || t.Digest == ""
	}
	return false
}

func (e *registryEvent) draft(raw []byte) post.Draft {
	priority, done, where := 0, "pushed", "to"
	if machine.MatchString(e.Target.Tag) {
		priority = -1
	}
	var parts []string
	if digest := e.Target.Digest; digest != "" {
		if algorithm, hex, ok := strings.Cut(digest, ":"); ok && len(hex) > shortDigest {
			digest = algorithm + ":" + hex[:shortDigest]
		}
		parts = append(parts, format.Code(format.Line(digest, 80)))
	}
	if e.Action == "delete" {
		done, where = "deleted", "from"
	} else {
		parts = append(parts, e.size())
	}
	repository := format.Line(e.Target.Repository, 255)
	title := repository
	if e.Target.Tag != "" {
		title += ":" + format.Line(e.Target.Tag, 128)
	}
	title += " " + done
	if e.Actor.Name != "" {
		done += " by " + format.Code(format.Line(e.Actor.Name, 100))
	}
	if e.Request.Host != "" {
		done += " " + where + " " + format.Code(format.Line(e.Request.Host, 255))
	}
	d := html(title, format.Inline(", ", append(parts, done)...), priority)
	d.IdempotencyKey, d.Topic = deliveryKey("registry", e.ID, raw), repository
	return d
}

// size returns the size of the image as text, if the event names its parts, or for which platforms an index is; "" if that is
// unknown. A manifest's own size would say nothing of the image and is named as what it is.
func (e *registryEvent) size() string {
	t := &e.Target
	switch {
	case t.MediaType == "application/vnd.oci.image.index.v1+json", t.MediaType == "application/vnd.docker.distribution.manifest.list.v2+json":
		return platforms(t.References)
	case len(t.References) > 0:
		var sum int64
		for _, r := range t.References {
			if r.Size < 0 || sum+r.Size < sum {
				return ""
			}
			sum += r.Size
		}
		return format.Size(sum)
	case t.Size > 0:
		return "manifest of " + format.Size(t.Size)
	}
	return ""
}

// platforms lists those of an index. Attestations, which have none, are left out.
func platforms(refs []descriptor) string {
	var names []string
	for _, r := range refs {
		if p := r.Platform; p != nil && p.OS != "" && p.OS != "unknown" {
			names = append(names, format.Code(format.Line(strings.TrimSuffix(p.OS+"/"+p.Architecture+"/"+p.Variant, "/"), 60)))
		}
	}
	switch n := len(names); {
	case n == 0:
		return "for several platforms"
	case n > maxPlatforms:
		names = append(names[:maxPlatforms], fmt.Sprintf("%d more", n-maxPlatforms))
	}
	return "for " + strings.Join(names, ", ")
}
