package oci

import "fmt"

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
