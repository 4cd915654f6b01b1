package header

import (
	"net/http"
	"strconv"
	"strings"

	"slipway/registry/internal/oci"
)

// Span is a part of a blob, in bytes.
type Span struct{ Start, Length int64 }

// ContentRange returns the Content-Range header of an answer with this part of a blob of size
// bytes.
func (s Span) ContentRange(size int64) string {
	b := append(make([]byte, 0, 48), "bytes "...)
	b = strconv.AppendInt(b, s.Start, 10)
	b = append(b, '-')
	b = strconv.AppendInt(b, s.Start+s.Length-1, 10)
	b = append(b, '/')
	return string(strconv.AppendInt(b, size, 10))
}

// RangeKind classifies a Range header.
type RangeKind int

// The kinds of ranges.
const (
	RangeNone          RangeKind = iota // the whole blob
	RangeOne                            // one span
	RangeSeveral                        // more than one; net/http answers it
	RangeUnsatisfiable                  // malformed, or outside the blob
)

// ParseRange parses a Range header (RFC 9110, 14.2) for content of size bytes. It ignores an
// unknown unit, as the RFC demands. A malformed list of bytes is unsatisfiable, an empty one is
// none. Of empty content only the whole can be asked for, as in net/http and so in CNCF
// distribution: some clients send a range with each request.
func ParseRange(header string, size int64) (RangeKind, Span) {
	list, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return RangeNone, Span{}
	}
	several := strings.IndexByte(list, ',') >= 0
	found, none := Span{}, true
	for element := range strings.SplitSeq(list, ",") {
		element = trim(element)
		if element == "" {
			continue
		}
		none = false
		part, ok := parseSpan(element, size)
		if !ok {
			return RangeUnsatisfiable, Span{}
		}
		if part.Length > 0 {
			found = part
		}
	}
	switch {
	case none || size == 0:
		return RangeNone, Span{}
	case found.Length == 0:
		return RangeUnsatisfiable, Span{}
	case several:
		return RangeSeveral, Span{}
	default:
		return RangeOne, found
	}
}

// parseSpan reads one element of the list. ok is false if it is malformed; its
// length is 0 if it is outside the content.
func parseSpan(s string, size int64) (part Span, ok bool) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return Span{}, false
	}
	first, last = trim(first), trim(last)
	if first == "" { // the last bytes
		n, ok := parseOffset(last)
		n = min(n, size)
		return Span{size - n, n}, ok
	}
	start, ok := parseOffset(first)
	end := size - 1
	if ok && last != "" {
		end, ok = parseOffset(last)
		ok = ok && end >= start
	}
	if !ok || start >= size {
		return Span{}, ok
	}
	return Span{start, min(end, size-1) - start + 1}, true
}

// Chunk parses the Content-Range of a request that sends a part of an upload. ok is false if there
// is none, and for the end of an upload that brings no chunk. The error is RANGE_INVALID or SIZE_INVALID.
func Chunk(r *http.Request) (chunk Span, ok bool, err error) {
	sent := r.Header.Get("Content-Range")
	if sent == "" || r.Method == http.MethodPut && r.ContentLength == 0 {
		return Span{}, false, nil
	}
	chunk, ok = parseChunk(sent)
	if !ok {
		return Span{}, false, oci.Explain(oci.CodeRangeInvalid, "Content-Range must be <first byte>-<last byte>")
	}
	if r.ContentLength >= 0 && r.ContentLength != chunk.Length {
		return Span{}, false, oci.Explain(oci.CodeSizeInvalid, "Content-Range and Content-Length differ")
	}
	return chunk, true, nil
}

// parseChunk reads the Content-Range of a chunk, "<start>-<end>" inclusive
// (distribution-spec "Pushing a blob in chunks"). The form of RFC 9110,
// "bytes <start>-<end>/<total>", is taken too: some clients send it.
func parseChunk(header string) (Span, bool) {
	s := strings.TrimPrefix(trim(header), "bytes ")
	s, _, _ = strings.Cut(s, "/")
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return Span{}, false
	}
	start, ok1 := parseOffset(first)
	end, ok2 := parseOffset(last)
	if !ok1 || !ok2 || end < start || end-start == maxOffset {
		return Span{}, false
	}
	return Span{start, end - start + 1}, true
}

// trim removes the optional white space of RFC 9110.
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
