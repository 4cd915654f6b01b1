package layout

import (
	"errors"
	"testing"

	"slipway/registry/internal/oci"
)

func TestLinkHasNoNewline(t *testing.T) {
	if got := string(Link(dgst)); got != "sha256:"+hexa || len(got) != 71 {
		t.Errorf("Link = %q, want the 71 bytes of the digest", got)
	}
}

func TestParseLink(t *testing.T) {
	sha512 := oci.SHA512.FromBytes(nil)
	tests := []struct {
		content string
		want    oci.Digest
		err     error
	}{
		{string(dgst), dgst, nil},
		{string(sha512), sha512, nil},
		{string(dgst) + "\n", dgst, nil},
		{string(dgst) + "\r\n", dgst, nil},
		{string(dgst) + "  \n\n", dgst, nil},
		{"", "", ErrEmptyLink},
		{"\n", "", ErrEmptyLink},
		{hexa, "", ErrBadLink},
		{"sha256:" + hexa[:63], "", ErrBadLink},
		{" " + string(dgst), "", ErrBadLink},
		{string(dgst) + "\nmore", "", ErrBadLink},
		{"sha256:../../../../etc/passwd", "", ErrBadLink},
		{"\x00\x00\x00\x00", "", ErrBadLink},
	}
	for _, tt := range tests {
		got, err := ParseLink([]byte(tt.content))
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ParseLink(%q) = %q, %v; want %q, %v", tt.content, got, err, tt.want, tt.err)
		}
	}
}
