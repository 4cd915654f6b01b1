package storage

import "strings"

// maxKey leaves room for a root directory below PATH_MAX (4096).
const maxKey = 3072

// ValidKey reports whether p is one or more components, each after a slash, of
// letters, digits, ".", "_" and "-", none of which starts with a dot. So
// nothing climbs out of the root, and names that start with a dot stay free
// for the drivers' own use.
func ValidKey(p string) bool {
	if len(p) < 2 || len(p) > maxKey || p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	for i := 1; i < len(p); i++ {
		c := p[i]
		if !keyByte[c] || p[i-1] == '/' && (c == '.' || c == '/') {
			return false
		}
	}
	return true
}

// keyByte holds the bytes that may occur; a table, because the check runs
// before each operation.
var keyByte = func() (t [256]bool) {
	for c := range t {
		t[c] = strings.IndexByte("/._-", byte(c)) >= 0 ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return t
}()
