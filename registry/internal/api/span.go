package api

import (
	"strconv"
	"strings"
)

// span is a part of a blob.
type span struct{ start, length int64 }

// rangeKind is what a Range header asks for.
type rangeKind int

const (
	rangeNone          rangeKind = iota // the whole blob
	rangeOne                            // one span
	rangeSeveral                        // more than one; net/http answers it
	rangeUnsatisfiable                  // nothing of it lies inside the blob
)

// parseRange reads a Range header (RFC 9110, 14.2) for content of the size.
// An unknown unit is passed over, as the RFC demands; a malformed list of bytes
// counts as unsatisfiable, as net/http and so CNCF distribution have it.
func parseRange(header string, size int64) (rangeKind, span) {
	list, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return rangeNone, span{}
	}
	if strings.IndexByte(list, ',') >= 0 {
		return rangeSeveral, span{}
	}
	first, last, ok := strings.Cut(strings.TrimSpace(list), "-")
	if !ok {
		return rangeUnsatisfiable, span{}
	}
	first, last = strings.TrimSpace(first), strings.TrimSpace(last)
	if first == "" {
		return suffixRange(last, size)
	}
	start, ok := parseOffset(first)
	if !ok || start >= size {
		return rangeUnsatisfiable, span{}
	}
	if last == "" {
		return rangeOne, span{start, size - start}
	}
	end, ok := parseOffset(last)
	if !ok || end < start {
		return rangeUnsatisfiable, span{}
	}
	return rangeOne, span{start, min(end, size-1) - start + 1}
}

// suffixRange is the "-500" form: the last bytes.
func suffixRange(length string, size int64) (rangeKind, span) {
	n, ok := parseOffset(length)
	if !ok || n == 0 || size == 0 {
		return rangeUnsatisfiable, span{}
	}
	n = min(n, size)
	return rangeOne, span{size - n, n}
}

// parseChunk reads the Content-Range of a chunk, "<start>-<end>" inclusive
// (distribution-spec "Pushing a blob in chunks"). The form of RFC 9110,
// "bytes <start>-<end>/<total>", is taken too: some clients send it.
func parseChunk(header string) (span, bool) {
	s := strings.TrimPrefix(strings.TrimSpace(header), "bytes ")
	s, _, _ = strings.Cut(s, "/")
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return span{}, false
	}
	start, ok1 := parseOffset(first)
	end, ok2 := parseOffset(last)
	if !ok1 || !ok2 || end < start || end-start == maxOffset {
		return span{}, false
	}
	return span{start, end - start + 1}, true
}

const maxOffset = 1<<63 - 1

// parseOffset reads decimal digits and nothing else (no sign, no space).
func parseOffset(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
