package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// MaxDeletion is more bytes than a part of a deletion's record holds.
const MaxDeletion = 16 << 20

// MaxDeleted bounds the tags and manifests in a part of a deletion's record.
const MaxDeleted = 20_000

// ErrBadDeletion means that the record of a deletion can't be read.
var ErrBadDeletion = errors.New("the record of a deletion is malformed")

// Deletion is the record of a deletion that can be undone. It is written before anything is
// deleted, so some of it may never have gone.
type Deletion struct {
	ID         string                 `json:"id"`
	At         time.Time              `json:"at"`
	Until      time.Time              `json:"until"`                // it can be restored
	By         string                 `json:"by,omitempty"`         // "" if nobody knows
	Repository bool                   `json:"repository,omitempty"` // all of the repository was deleted
	Tags       map[oci.Tag]oci.Digest `json:"tags,omitempty"`       // and what they pointed at
	Manifests  []oci.Digest           `json:"manifests,omitempty"`
}

// DeletionID returns the ID of a deletion: its times and something random, so that IDs sort
// by time. All of it is safe in a path.
func DeletionID(at, until time.Time) string {
	return fmt.Sprintf("%013d-%013d-%s", at.UnixMilli(), until.UnixMilli(), NewUploadID()[:8])
}

// ParseDeletionID reads the times in an ID.
func ParseDeletionID(id string) (at, until time.Time, ok bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 3 || len(parts[0]) != 13 || len(parts[1]) != 13 {
		return at, until, false
	}
	from, err := strconv.ParseUint(parts[0], 10, 63)
	to, err2 := strconv.ParseUint(parts[1], 10, 63)
	return time.UnixMilli(int64(from)).UTC(), time.UnixMilli(int64(to)).UTC(), err == nil && err2 == nil
}

// Encode returns the content of a part of the record.
func (d *Deletion) Encode() []byte {
	named := *d
	named.By = printable(d.By)
	content, err := json.Marshal(named)
	if err != nil {
		panic(err) // strings and times only
	}
	return content
}

// ParseDeletion parses a part of the record with that ID. Its times are those of the ID. The
// error is ErrBadDeletion.
func ParseDeletion(id string, content []byte) (Deletion, error) {
	var d Deletion
	err := json.Unmarshal(content, &d)
	at, until, ok := ParseDeletionID(id)
	for tag, target := range d.Tags {
		_, bad := oci.ParseTag(string(tag))
		_, alsoBad := oci.ParseDigest(string(target))
		err = errors.Join(err, bad, alsoBad)
	}
	for _, m := range d.Manifests {
		_, bad := oci.ParseDigest(string(m))
		err = errors.Join(err, bad)
	}
	if err != nil || !ok {
		return Deletion{}, fmt.Errorf("%w: %.60s", ErrBadDeletion, id)
	}
	d.ID, d.At, d.Until, d.By = id, at, until, printable(d.By)
	return d, nil
}

// Split returns the deletion as parts of a record, none if it names nothing.
func (d *Deletion) Split() (parts []Deletion) {
	part, n := *d, MaxDeleted
	next := func() {
		if n++; n > MaxDeleted {
			part.Tags, part.Manifests = map[oci.Tag]oci.Digest{}, nil
			parts, n = append(parts, part), 1
		}
	}
	for tag, target := range d.Tags {
		next()
		parts[len(parts)-1].Tags[tag] = target
	}
	for _, m := range d.Manifests {
		next()
		last := &parts[len(parts)-1]
		last.Manifests = append(last.Manifests, m)
	}
	return parts
}

// Add adds another part of the same record. The zero value has no part yet.
func (d *Deletion) Add(part Deletion) {
	if d.ID == "" {
		*d = part
		return
	}
	if d.Tags == nil {
		d.Tags = map[oci.Tag]oci.Digest{}
	}
	for tag, target := range part.Tags {
		d.Tags[tag] = target
	}
	d.Manifests = append(d.Manifests, part.Manifests...)
}
