package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

// Bounds of fields, in bytes: clients choose what is in them.
const (
	maxField  = 256
	maxChange = 2048
	maxMoved  = 100 // entries, as many as one push may have tags
)

// Record is one line.
type Record struct {
	Time       time.Time         `json:"time"`
	Event      string            `json:"event"`             // login, refused, pull, push, mount, delete, restore, robot created, robot rotated, robot deleted, token created, token revoked, user created, user changed, user deleted, password reset, password changed, maintenance, reload, lost
	Who        string            `json:"who,omitempty"`     // the authenticated caller, or anonymous
	Token      string            `json:"token,omitempty"`   // ID of the personal access token that the caller logged in with, else of the one created or revoked
	Claimed    string            `json:"claimed,omitempty"` // the name that a refused login gave
	From       string            `json:"from,omitempty"`    // the client's address
	Method     string            `json:"method,omitempty"`
	Repository string            `json:"repository,omitempty"`
	Reference  string            `json:"reference,omitempty"` // tag, digest, upload, robot, user, command or file
	Digest     string            `json:"digest,omitempty"`
	Moved      map[string]string `json:"moved,omitempty"`  // tags that pointed at another manifest before: tag → digest
	Change     string            `json:"change,omitempty"` // the rights of a robot, whether a user is enabled, what a reload has changed
	Status     int               `json:"status,omitempty"`
	Reason     string            `json:"reason,omitempty"` // of a refusal
	Result     string            `json:"result,omitempty"` // of what no request asked for: Succeeded or Failed
	RequestID  string            `json:"request_id,omitempty"`
	Count      int               `json:"count,omitempty"` // refusals that this line stands for
	Lost       uint64            `json:"lost,omitempty"`  // lines that were lost
}

// The results of a record.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

// ResultOf returns Failed for an error.
func ResultOf(err error) string {
	if err != nil {
		return Failed
	}
	return Succeeded
}

// reads reports whether the record is a pull or a refusal: lines that anyone may be able
// to cause in any number.
func (r *Record) reads() bool { return r.Event == "pull" || r.Event == "refused" }

// encode returns the line, which has at most some KiB whatever the client has sent.
func encode(r Record) []byte {
	r.Time = r.Time.UTC()
	for _, field := range []*string{&r.Event, &r.Who, &r.Token, &r.Claimed, &r.From, &r.Method, &r.Repository, &r.Reference, &r.Digest, &r.Reason, &r.Result, &r.RequestID} {
		*field = shorten(*field, maxField)
	}
	r.Change = shorten(r.Change, maxChange)
	if len(r.Moved) > 0 {
		moved := make(map[string]string, min(len(r.Moved), maxMoved))
		for tag, d := range r.Moved {
			if len(moved) < maxMoved {
				moved[shorten(tag, maxField)] = shorten(d, maxField)
			}
		}
		r.Moved = moved
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		panic(err) // plain data
	}
	return line.Bytes()
}

// shorten cuts a text, and replaces what can't be printed: JSON would need six bytes for
// one of it.
func shorten(s string, limit int) string {
	cut := len(s) > limit
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return '?'
	}, s[:min(len(s), limit)])
	if cut {
		s += "…"
	}
	return s
}
