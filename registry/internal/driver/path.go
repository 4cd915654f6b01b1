package driver

import "strings"

// maxPath leaves room for a root directory below PATH_MAX (4096).
const maxPath = 3072

// ValidPath says whether p is one or more components, each behind a slash, of
// letters, digits, ".", "_" and "-", none of which starts with a dot. So
// nothing climbs out of the root, and names that start with a dot stay free
// for the drivers' own use.
func ValidPath(p string) bool {
	if len(p) < 2 || len(p) > maxPath || p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	for i := 1; i < len(p); i++ {
		c := p[i]
		if !pathByte[c] || p[i-1] == '/' && (c == '.' || c == '/') {
			return false
		}
	}
	return true
}

// pathByte holds the bytes that may occur; a table, because the check runs
// before each operation.
var pathByte = func() (t [256]bool) {
	for c := range t {
		t[c] = strings.IndexByte("/._-", byte(c)) >= 0 ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return t
}()
