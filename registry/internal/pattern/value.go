package pattern

import (
	"regexp"
	"strings"
)

// Value returns the expression of a pattern for values such as the claims of a token and the subject of a certificate: "*" stands for
// anything but slashes and colons, "**" for anything, all else for itself. The value must match as a whole.
func Value(p string) *regexp.Regexp {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(p), `\*\*`, `.*`)
	return regexp.MustCompile(`^` + strings.ReplaceAll(quoted, `\*`, `[^/:]*`) + `$`)
}
