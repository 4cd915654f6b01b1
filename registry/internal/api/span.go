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
// counts as unsatisfiable, an empty list as none, and of empty content there is
// only the whole, as net/http and so CNCF distribution have it: some clients ask
// for a range of everything they fetch.
func parseRange(header string, size int64) (rangeKind, span) {
	list, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return rangeNone, span{}
	}
	several := strings.IndexByte(list, ',') >= 0
	found, none := span{}, true
	for element := range strings.SplitSeq(list, ",") {
		element = trim(element)
		if element == "" {
			continue
		}
		none = false
		part, ok := parseSpan(element, size)
		if !ok {
			return rangeUnsatisfiable, span{}
		}
		if part.length > 0 {
			found = part
		}
	}
	switch {
	case none || size == 0:
		return rangeNone, span{}
	case found.length == 0:
		return rangeUnsatisfiable, span{}
	case several:
		return rangeSeveral, span{}
	default:
		return rangeOne, found
	}
}

// parseSpan reads one element of the list. ok is false if it is malformed; its
// length is 0 if it lies outside the content.
func parseSpan(s string, size int64) (part span, ok bool) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return span{}, false
	}
	first, last = trim(first), trim(last)
	if first == "" { // the last bytes
		n, ok := parseOffset(last)
		n = min(n, size)
		return span{size - n, n}, ok
	}
	start, ok := parseOffset(first)
	end := size - 1
	if ok && last != "" {
		end, ok = parseOffset(last)
		ok = ok && end >= start
	}
	if !ok || start >= size {
		return span{}, ok
	}
	return span{start, min(end, size-1) - start + 1}, true
}

// parseChunk reads the Content-Range of a chunk, "<start>-<end>" inclusive
// (distribution-spec "Pushing a blob in chunks"). The form of RFC 9110,
// "bytes <start>-<end>/<total>", is taken too: some clients send it.
func parseChunk(header string) (span, bool) {
	s := strings.TrimPrefix(trim(header), "bytes ")
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

// trim takes away the optional white space of RFC 9110.
func trim(s string) string { return strings.Trim(s, " \t") }

const maxOffset = 1<<63 - 1

// parseOffset reads decimal digits and nothing else (no sign, no space).
func parseOffset(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
