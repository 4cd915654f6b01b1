package post

import (
	"bytes"
	"crypto/sha256"
	"regexp"
)

// Lengths of the tokens that the relay makes, of letters and digits.
const (
	TokenLength  = 30 // the first is "A": 172 random bits, in the form that clients of Pushover accept
	StrictLength = 15 // the one form that clients which check it accept
)

// mayHoldToken matches words that are long enough for a token.
var mayHoldToken = regexp.MustCompile(`[A-Za-z0-9]{15,}`)

// HideHashed returns a text without the tokens that have these hashes, if the relay generated them. It finds a token only at the beginning
// or the end of a word, so a word costs at most four hashes.
func HideHashed(text string, hashes ...[]byte) string {
	if len(hashes) == 0 {
		return text
	}
	is := func(token string) bool {
		sum := sha256.Sum256([]byte(token))
		for _, h := range hashes {
			if bytes.Equal(h, sum[:]) {
				return true
			}
		}
		return false
	}
	return mayHoldToken.ReplaceAllStringFunc(text, func(word string) string {
		for _, n := range []int{TokenLength, StrictLength} {
			switch end := len(word) - n; {
			case end < 0:
			case is(word[:n]):
				return "…" + word[n:]
			case is(word[end:]): // an escape such as \n may stand before it
				return word[:end] + "…"
			}
		}
		return word
	})
}
