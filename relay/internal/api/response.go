package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// The headers of every answer, shared because net/http only reads them.
var (
	jsonType = []string{"application/json; charset=utf-8"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // these types always encode
		status, body = http.StatusInternalServerError, []byte(`{"error":"Internal Server Error","errorCode":500,"success":false}`)
	}
	writeBytes(w, status, append(body, '\n'))
}

// writeBytes answers with encoded JSON.
func writeBytes(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = jsonType, noStore, noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. It does what encoding/json does
// without HTML escaping, at a fraction of the price.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += size
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
