// Package hook reads what other programs send by themselves, in shapes that are
// theirs, and makes messages of it: one file a sender. It is pure.
package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// MaxEvents is how many events an envelope may have.
const MaxEvents = 1000

// ErrTooMany is returned for an envelope of more than [MaxEvents] events.
var ErrTooMany = fmt.Errorf("an envelope may have %d events", MaxEvents)

// Notice is a message made of an event.
type Notice struct {
	Key      string // names the event: the same one sent again has the same key; printable, at most 128 bytes
	Title    string // one line
	Message  string // Markdown
	Priority int    // -2 … 2
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

// Registry reads a registry's envelope. Tagged manifests that were pushed and tags
// that were deleted make a notice each, in the order of the events; ignored counts
// the rest: blobs, manifests that only another one names, pulls, mounts.
func Registry(body []byte) (notices []Notice, ignored int, err error) {
	var in envelope
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, 0, err
	}
	if in.Events == nil {
		return nil, 0, errors.New("it has no events")
	}
	if len(in.Events) > MaxEvents {
		return nil, 0, ErrTooMany
	}
	for i, raw := range in.Events {
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, 0, fmt.Errorf("event %d: %w", i, err)
		}
		if e.Target.Tag == "" || e.Target.Repository == "" || e.Action != "push" && e.Action != "delete" {
			ignored++
			continue
		}
		notices = append(notices, e.notice(raw))
	}
	return notices, ignored, nil
}

// machine is the form of tags that programs make for what belongs to an image: its
// signature, its bill of materials.
var machine = regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)

func (e *event) notice(raw []byte) Notice {
	n := Notice{Key: e.key(raw), Title: plain(e.Target.Repository, 255) + ":" + plain(e.Target.Tag, 128)}
	if machine.MatchString(e.Target.Tag) {
		n.Priority = -1
	}
	if e.Action == "delete" {
		n.Title += " deleted"
	} else {
		n.Title += " pushed"
	}
	n.Message = e.text()
	return n
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
