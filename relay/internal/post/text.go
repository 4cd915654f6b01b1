package post

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"unicode"
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

const shortestToken = 8 // an imported one that is shorter may be a word

// HideToken returns a text without a token: a reader of a message may not be allowed to send one. It also finds a token
// that invisible characters split, and then removes all of them from the text.
func HideToken(text, token string) string {
	token = strings.TrimSpace(token) // security.checktoken may take white space around it
	if len(token) < shortestToken {
		return text
	}
	text = strings.ReplaceAll(text, token, "…")
	if !contains(text, token) {
		return text
	}
	shown := strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, text)
	if strings.Contains(shown, token) {
		return strings.ReplaceAll(shown, token, "…")
	}
	return text
}

// markupBetween matches text that rendering may remove between two parts of a word.
var markupBetween = regexp.MustCompile(`<[^<>]*>|&[A-Za-z0-9]+;|[^A-Za-z0-9]+`)

// MayJoin reports whether rendering a text's markup could make a token appear.
func MayJoin(text, token string) bool {
	token = strings.TrimSpace(token)
	if len(token) < shortestToken {
		return false
	}
	if strings.Contains(text, "&#") { // may stand for any character
		return true
	}
	return contains(text, token) && strings.Contains(markupBetween.ReplaceAllString(text, ""), markupBetween.ReplaceAllString(token, ""))
}

// contains reports whether token is a subsequence of text.
func contains(text, token string) bool {
	for i := range len(token) {
		at := strings.IndexByte(text, token[i])
		if at < 0 {
			return false
		}
		text = text[at+1:]
	}
	return true
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
