package header

import (
	"net/http"
	"strings"
)

// matchesTag reports whether an If-None-Match or If-Match header names the quoted
// entity tag (RFC 9110, 13.1.1 and 13.1.2): a list, over several lines, of
// quoted tags or "*". weak allows the W/ prefix. A bare digest is taken as a
// tag as well: CNCF distribution does so, and its clients may rely on it.
func matchesTag(lines []string, etag string, weak bool) bool {
	for _, line := range lines {
		for line != "" {
			var element string
			element, line = nextTag(line)
			if weak {
				element = strings.TrimPrefix(element, "W/")
			}
			if element == "*" || element == etag || element == etag[1:len(etag)-1] {
				return true
			}
		}
	}
	return false
}

// nextTag cuts the first element off a list of entity tags. A comma inside
// quotes belongs to the tag.
func nextTag(list string) (element, rest string) {
	quoted := false
	for i := range len(list) {
		switch {
		case list[i] == '"':
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return strings.TrimSpace(list[:i]), list[i+1:]
		}
	}
	return strings.TrimSpace(list), ""
}

// Condition evaluates the request's preconditions for content that exists and
// has the quoted entity tag. It returns 0, 304 or 412.
func Condition(h http.Header, etag string) int {
	if lines := h["If-Match"]; len(lines) > 0 && !matchesTag(lines, etag, false) {
		return http.StatusPreconditionFailed
	}
	if lines := h["If-None-Match"]; len(lines) > 0 && matchesTag(lines, etag, true) {
		return http.StatusNotModified
	}
	return 0
}

// RangeApplies evaluates If-Range: a range of other content is useless to the client. A date never
// matches, because content has none.
func RangeApplies(h http.Header, etag string) bool {
	lines := h["If-Range"]
	return len(lines) == 0 || lines[0] == etag
}
