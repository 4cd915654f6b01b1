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
	// MaxName is the length of the longest name, in bytes.
	MaxName     = 128
	maxRoom     = 255
	maxMatrixID = 255
)

// CheckName returns a name without surrounding white space.
func CheckName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > MaxName || strings.ContainsFunc(name, unicode.IsControl) {
		return "", refusal.Invalid("name", "A name has 1 to "+strconv.Itoa(MaxName)+" bytes, none of them a control character.")
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

// IsMatrixID reports whether a text has the form of a Matrix ID.
func IsMatrixID(s string) bool { return len(s) <= maxMatrixID && matrixID.MatchString(s) }
