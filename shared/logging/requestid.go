package logging

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"sync/atomic"
)

const maxRequestID = 64

// RequestIDs numbers requests: a random prefix of the process and a counter,
// unique enough to find a line again and far cheaper than a UUID.
type RequestIDs struct {
	prefix string
	last   atomic.Uint64
}

// NewRequestIDs starts a new series.
func NewRequestIDs() *RequestIDs {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return &RequestIDs{prefix: hex.EncodeToString(b[:]) + "-"}
}

// Next returns a new id.
func (ids *RequestIDs) Next() string {
	var b [32]byte
	return string(strconv.AppendUint(append(b[:0], ids.prefix...), ids.last.Add(1), 36))
}

// of returns the id that the client or a proxy chose, if it is short and plain
// enough to be written into a log and an answer, otherwise a new one.
func (ids *RequestIDs) of(r *http.Request) string {
	if v := r.Header["X-Request-Id"]; len(v) == 1 && saneID(v[0]) {
		return v[0]
	}
	return ids.Next()
}

func saneID(s string) bool {
	if len(s) < 8 || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
