package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// MaxDeletion is more bytes than a record of a deletion holds: it has 300 at most for each tag with its manifest.
const MaxDeletion = 1 << 30

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
	if len(parts) != 3 || len(parts[0]) != 13 || len(parts[1]) != 13 || len(parts[2]) != 8 || strings.Contains(parts[2], "/") {
		return at, until, false
	}
	from, err := strconv.ParseUint(parts[0], 10, 63)
	to, err2 := strconv.ParseUint(parts[1], 10, 63)
	return time.UnixMilli(int64(from)).UTC(), time.UnixMilli(int64(to)).UTC(), err == nil && err2 == nil
}

// Key is the key of the record in a repository. It names the manifest of a deletion that has only one, so that a listing
// shows which images can be restored.
func (d *Deletion) Key(n oci.Name) string {
	key := Deletions(n) + "/" + d.ID
	if len(d.Manifests) == 1 {
		key += "." + string(d.Manifests[0].Algorithm()) + "-" + d.Manifests[0].Hex()
	}
	return key
}

// ParseDeletionName parses the part of a Key below Deletions. manifest is "" if it names none.
func ParseDeletionName(name string) (id string, until time.Time, manifest oci.Digest, ok bool) {
	id, digest, one := strings.Cut(name, ".")
	_, until, ok = ParseDeletionID(id)
	if one && ok {
		var err error
		manifest, err = oci.ParseDigest(strings.Replace(digest, "-", ":", 1))
		ok = err == nil
	}
	return id, until, manifest, ok
}

// Digests are the manifests that the deletion names, those of its tags among them.
func (d *Deletion) Digests() []oci.Digest {
	return slices.AppendSeq(slices.Clone(d.Manifests), maps.Values(d.Tags))
}

// Encode returns the content of the record.
func (d *Deletion) Encode() []byte {
	named := *d
	named.By = printable(d.By)
	content, err := json.Marshal(named)
	if err != nil {
		panic(err) // strings and times only
	}
	return content
}

// ParseDeletion parses the record with that ID. Its times are those of the ID. The
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
