package oci

import "strings"

// MaxTagLength is the longest tag accepted, in bytes.
const MaxTagLength = 128

// Tag is a manifest's name inside a repository: [A-Za-z0-9_][A-Za-z0-9_.-]{0,127}.
type Tag string

// ParseTag checks s against the grammar of tags. The error is an *Error with
// CodeTagInvalid.
func ParseTag(s string) (Tag, error) {
	if !validTag(s) {
		return "", Explain(CodeTagInvalid, "tag must match [A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
	}
	return Tag(s), nil
}

func validTag(s string) bool {
	if len(s) == 0 || len(s) > MaxTagLength || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isLowerAlnum(c) && (c < 'A' || c > 'Z') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// Reference names a manifest inside a repository: exactly one of Tag and
// Digest is set.
type Reference struct {
	Tag    Tag
	Digest Digest
}

// ParseReference reads the last element of a manifest URL: a digest if it has
// a colon, else a tag. The error is an *Error with CodeDigestInvalid or
// CodeTagInvalid.
func ParseReference(s string) (Reference, error) {
	if strings.IndexByte(s, ':') >= 0 {
		d, err := ParseDigest(s)
		return Reference{Digest: d}, err
	}
	t, err := ParseTag(s)
	return Reference{Tag: t}, err
}

// String is the form used in URLs.
func (r Reference) String() string {
	if r.Tag != "" {
		return string(r.Tag)
	}
	return string(r.Digest)
}
