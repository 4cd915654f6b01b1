package account

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
)

const (
	// maxName is the length of the longest name, in bytes.
	maxName     = 128
	maxRoom     = 255
	maxMatrixID = 255
)

// checkName returns a name without surrounding white space.
func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, unicode.IsControl) {
		return "", refusal.Invalid("name", "A name has 1 to "+strconv.Itoa(maxName)+" bytes, none of them a control character.")
	}
	return post.Clean(name), nil
}

// CheckAddress checks the form of a room's address. Room IDs are opaque: since room version 12 they have no domain.
func CheckAddress(address string) error {
	if address == "" {
		return nil
	}
	ok := len(address) <= maxRoom && len(address) > 1 && !strings.ContainsFunc(address, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	})
	switch {
	case ok && address[0] == '!':
		return nil
	case ok && address[0] == '#' && strings.Contains(address, ":"):
		return nil
	}
	return refusal.Invalid("room_id", "A room is an id that begins with ! or an alias like #name:server.")
}

// matrixID is the form of a Matrix ID. Historical ones may have any printable character in the local part.
var matrixID = regexp.MustCompile(`^@[^:\s\p{C}]*:[^\s\p{C}]+$`)

// isMatrixID reports whether a text has the form of a Matrix ID.
func isMatrixID(s string) bool { return len(s) <= maxMatrixID && matrixID.MatchString(s) }
