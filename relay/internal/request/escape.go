package request

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Unescape returns JSON with characters in place of unnecessary escapes, so that a text search finds them. The result isn't longer than
// the input.
func Unescape(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		n := 1
		if raw[0] == '\\' {
			r, long := escaped(raw)
			if long > 0 {
				out, raw = utf8.AppendRune(out, r), raw[long:]
				continue
			}
			n = min(2, len(raw))
		}
		out, raw = append(out, raw[:n]...), raw[n:]
	}
	return out
}

// escaped returns the character of an unnecessary escape and the escape's length; the length is 0 for anything else.
func escaped(raw []byte) (r rune, n int) {
	r, n = unit(raw), 6
	if utf16.IsSurrogate(r) {
		r, n = utf16.DecodeRune(r, unit(raw[n:])), 12
	}
	if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
		return 0, 0
	}
	return r, n
}

// unit returns the UTF-16 code unit of an escape, −1 if there is none.
func unit(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
