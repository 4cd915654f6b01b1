package smtp

import (
	"encoding/base64"
	"io"
	"mime/quotedprintable"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// toUTF8 decodes text with the label of its charset. Without a known label, or where US-ASCII has other bytes, it is UTF-8 if it can be.
func toUTF8(b []byte, label string) string {
	e, name := charset.Lookup(label)
	if e == nil || name == "replacement" || isASCII(label) { // replacement shows nothing of a text
		e = guess(b)
	}
	decoded, err := e.NewDecoder().Bytes(b)
	if err != nil {
		return string(b)
	}
	return string(decoded)
}

func guess(b []byte) encoding.Encoding {
	e, name, certain := charset.DetermineEncoding(b, "") // by its byte order mark or, in HTML, its meta element
	if !certain && (name == "windows-1252" || name == "utf-8") && utf8.Valid(b) {
		return encoding.Nop
	}
	return e
}

// isASCII reports whether label names US-ASCII, which cron in the C locale writes over any text.
func isASCII(label string) bool {
	switch strings.ToLower(strings.TrimSpace(label)) {
	case "us-ascii", "ascii", "ansi_x3.4-1968", "iso-ir-6", "iso646-us", "us", "cp367":
		return true
	}
	return false
}

// word is an encoded word (RFC 2047).
var word = regexp.MustCompile(`=\?([^?\s]+)\?([bBqQ])\?([^?]*)\?=`)

// decodeWords decodes the encoded words of a header. Adjacent ones of one charset are decoded together: some programs cut them inside a
// character.
func decodeWords(s string) string {
	var out strings.Builder
	var run []byte
	label, last, inRun := "", 0, false
	for _, at := range word.FindAllStringSubmatchIndex(s, -1) {
		content, ok := wordBytes(s[at[4]:at[5]], s[at[6]:at[7]])
		if !ok {
			continue
		}
		named, _, _ := strings.Cut(s[at[2]:at[3]], "*") // without its language (RFC 2231)
		between := s[last:at[0]]
		adjacent := inRun && strings.TrimSpace(between) == ""
		if !adjacent || !strings.EqualFold(named, label) {
			out.WriteString(toUTF8(run, label))
			run = run[:0]
		}
		if !adjacent {
			out.WriteString(toUTF8([]byte(between), ""))
		}
		run = append(run, content...)
		label, last, inRun = named, at[1], true
	}
	out.WriteString(toUTF8(run, label))
	out.WriteString(toUTF8([]byte(s[last:]), ""))
	return out.String()
}

// wordBytes decodes the content of an encoded word.
func wordBytes(kind, content string) ([]byte, bool) {
	if strings.EqualFold(kind, "b") {
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(content, "="))
		return b, err == nil
	}
	b, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(strings.ReplaceAll(content, "_", "=20"))))
	return b, err == nil
}
