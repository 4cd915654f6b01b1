package message

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Clean makes text of what was sent: homeservers refuse what is no UTF-8, and some the character NUL.
func Clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return s
}

// HideToken returns a text without a token: the readers of a message may not send one.
func HideToken(text, token string) string {
	const shortest = 8               // an imported one that is shorter may be a word
	token = strings.TrimSpace(token) // security.checktoken may take white space around it
	if len(token) < shortest {
		return text
	}
	return strings.ReplaceAll(text, token, "…")
}

// Printable reports whether s consists of printable ASCII characters.
func Printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// NewTxn returns a transaction id. It is random, so that a database restored from a copy never repeats one.
func NewTxn() string {
	b := make([]byte, 0, 28)
	b = append(b, 'r')
	b = strconv.AppendUint(b, rand.Uint64(), 36)
	b = append(b, '.')
	return string(strconv.AppendUint(b, rand.Uint64(), 36))
}

// NobodyInvited returns the sentence for a room of the bot without other members.
func NobodyInvited(owner string) string {
	return "The owner " + owner + " has no Matrix ID, so nobody was invited: enter the ID, then create the application anew, or give it another room."
}
