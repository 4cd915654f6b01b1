package layout

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// MaxPushed is more than any push record holds, in bytes.
const MaxPushed = 512

// ErrBadPushed means that a push record can't be read.
var ErrBadPushed = errors.New("the push record holds no digest and time")

// Pushed returns the content of a push record: the digest that the tag was pointed
// at and when, in RFC 3339 and UTC. Unlike the date of the tag's link, it survives
// a copy of the tree.
func Pushed(d oci.Digest, at time.Time) []byte {
	return []byte(string(d) + " " + at.UTC().Format(time.RFC3339Nano))
}

// ParsePushed parses the content of a push record. The record is valid only while
// the tag still points at d: distribution moves a tag without updating it. The error
// is ErrBadPushed.
func ParsePushed(b []byte) (d oci.Digest, at time.Time, err error) {
	digest, date, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	d, err = oci.ParseDigest(digest)
	if err == nil {
		at, err = time.Parse(time.RFC3339Nano, date)
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("%w: %.120q", ErrBadPushed, b)
	}
	return d, at.UTC(), nil
}
