package layout

import (
	"bytes"
	"errors"
	"fmt"

	"slipway/registry/internal/oci"
)

// MaxLink is more than any link file holds.
const MaxLink = 256

// What is wrong with a link file. Distribution 2.8 writes links in place, so a
// crash leaves empty ones; people who edit them leave others.
var (
	ErrEmptyLink = errors.New("the link file is empty")
	ErrBadLink   = errors.New("the link file holds no digest")
)

// Link is the content of a link to d: the digest and nothing else. Readers of
// both lines of distribution stumble over a newline.
func Link(d oci.Digest) []byte { return []byte(d) }

// ParseLink reads the content of a link file. White space at its end is
// forgiven. Errors are ErrEmptyLink or ErrBadLink.
func ParseLink(b []byte) (oci.Digest, error) {
	b = bytes.TrimRight(b, " \t\r\n")
	if len(b) == 0 {
		return "", ErrEmptyLink
	}
	d, err := oci.ParseDigest(string(b))
	if err != nil {
		return "", fmt.Errorf("%w: %.80q", ErrBadLink, b)
	}
	return d, nil
}
