package layout

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
)

// NewUploadID returns a random UUID (RFC 9562, version 4), which nobody can
// guess: a caller that knows the id of an upload and may push can add to it.
func NewUploadID() string {
	var u [16]byte
	rand.Read(u[:]) //nolint:errcheck // never fails, by its documentation
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	b := make([]byte, 0, 36)
	for i, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return string(b)
}

// ValidUploadID reports whether s has the form of a UUID in lower case, the only
// one that this registry and both lines of distribution make. Such a string is
// safe in a path.
func ValidUploadID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if strings.IndexByte("0123456789abcdef", c) < 0 {
			return false
		}
	}
	return true
}

// StartedAt is the content of an upload's startedat: RFC 3339, UTC, in seconds.
func StartedAt(t time.Time) []byte {
	return t.UTC().AppendFormat(make([]byte, 0, len(time.RFC3339)), time.RFC3339)
}

// ParseStartedAt reads the content of a startedat. White space around it is
// forgiven.
func ParseStartedAt(b []byte) (time.Time, error) {
	return time.Parse(time.RFC3339, string(bytes.TrimSpace(b)))
}
