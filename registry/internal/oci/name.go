package oci

import (
	"fmt"
	"strings"
)

// MaxNameLength is the longest repository name accepted, in bytes.
const MaxNameLength = 255

// Name is a repository name that follows the grammar of distribution-spec
// "Pulling manifests": lower-case components of letters and digits, joined
// inside by ".", "_", "__" or dashes, separated by "/".
// A value of this type made by ParseName is safe as a relative storage path.
type Name string

// ParseName checks s against the grammar. The error is an *Error with
// CodeNameInvalid.
func ParseName(s string) (Name, error) {
	if len(s) > MaxNameLength {
		return "", Explain(CodeNameInvalid, fmt.Sprintf("repository name is longer than %d characters", MaxNameLength))
	}
	if !validName(s) {
		return "", Explain(CodeNameInvalid, "repository name must be lower-case components of [a-z0-9] joined by '.', '_', '__' or '-', separated by '/'")
	}
	return Name(s), nil
}

// validName walks s once; a regular expression would cost more than the rest
// of a manifest request's routing.
func validName(s string) bool {
	for i := 0; ; {
		start := i
		for i < len(s) && isLowerAlnum(s[i]) {
			i++
		}
		if i == start {
			return false
		}
		if i == len(s) {
			return true
		}
		switch s[i] {
		case '/', '.':
			i++
		case '_':
			i++
			if i < len(s) && s[i] == '_' {
				i++
			}
		case '-':
			for i < len(s) && s[i] == '-' {
				i++
			}
		default:
			return false
		}
	}
}

func isLowerAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

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
