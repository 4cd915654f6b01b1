package inbound

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/markup"
	"slipway/relay/internal/refusal"
)

// maxEvents is how many events an envelope may have.
const maxEvents = 1000

// Registry is the notifications of a container registry: a message for each tag that was pushed or deleted, with the
// event's id as its key. Requests must be signed with the
// application's secret, or else with secret; without either they need no signature.
func Registry(secret []byte) Protocol {
	return Protocol{
		Name:   "registry",
		Routes: []Route{{Method: http.MethodPost, Path: "/hook/registry"}},
		Token:  Token,
		Events: true,
		Parse: func(r *Request, app App) (Batch, error) {
			if err := isEnvelope(r.Header.Get("Content-Type")); err != nil {
				return Batch{}, err
			}
			secret, err := app.secretOr(secret)
			if err != nil {
				return Batch{}, err
			}
			if err := checkSignature(r, secret); err != nil {
				return Batch{}, err
			}
			b, err := parseEnvelope(r.Body)
			var shown *refusal.Error
			if err != nil && !errors.As(err, &shown) {
				return Batch{}, &refusal.Error{Kind: refusal.KindInvalid, Message: "The body is not an envelope of a registry's events: " + err.Error() + "."}
			}
			return b, err
		},
		Reply: func(w http.ResponseWriter, r Result) {
			httprequest.WriteJSON(w, http.StatusOK, registryAnswer{Success: true, Accepted: r.Accepted, Repeated: r.Repeated, Ignored: r.Ignored, Refused: r.Refused})
		},
		Fail: httprequest.WriteError,
	}
}

// registryAnswer counts an envelope's events by outcome.
type registryAnswer struct {
	Success  bool `json:"success"`
	Accepted int  `json:"accepted"` // messages that are stored now
	Repeated int  `json:"repeated"` // events that were accepted earlier
	Ignored  int  `json:"ignored"`  // events that make no message
	Refused  int  `json:"refused"`  // events whose message breaks the limits of this relay: to send them again would not help
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

// event is the part of one that people read.
type event struct {
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

// parseEnvelope reads an envelope. Tagged manifests that were pushed and tags that were deleted make a message each, in
// the order of the events; ignored are blobs, manifests that only another one names, pulls, mounts.
func parseEnvelope(body []byte) (b Batch, err error) {
	var in envelope
	if err := json.Unmarshal(body, &in); err != nil {
		return Batch{}, err
	}
	if in.Events == nil {
		return Batch{}, errors.New("it has no events")
	}
	if len(in.Events) > maxEvents {
		return Batch{}, &refusal.Error{Kind: refusal.KindTooLarge, Message: fmt.Sprintf("An envelope may have %d events.", maxEvents)}
	}
	for i, raw := range in.Events {
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			return Batch{}, fmt.Errorf("event %d: %w", i, err)
		}
		if e.Target.Tag == "" || e.Target.Repository == "" || e.Action != "push" && e.Action != "delete" {
			b.Ignored++
			continue
		}
		b.Drafts = append(b.Drafts, e.draft(raw))
	}
	return b, nil
}

// machine is the form of tags that programs make for what belongs to an image: its
// signature, its bill of materials.
var machine = regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)

func (e *event) draft(raw []byte) Draft {
	priority, done := 0, "pushed"
	if machine.MatchString(e.Target.Tag) {
		priority = -1
	}
	if e.Action == "delete" {
		done = "deleted"
	}
	return Draft{
		IdempotencyKey: e.key(raw), Title: markup.Line(e.Target.Repository, 255) + ":" + markup.Line(e.Target.Tag, 128) + " " + done,
		Message: e.text(), Priority: &priority,
	}
}

var keyForm = regexp.MustCompile(`^[0-9A-Za-z._:-]{1,100}$`)

// key is the event's id, or a hash of what came if that is no usable one.
func (e *event) key(raw []byte) string {
	if keyForm.MatchString(e.ID) {
		return "registry:" + e.ID
	}
	sum := sha256.Sum256(raw)
	return "registry/sha256:" + hex.EncodeToString(sum[:])
}
