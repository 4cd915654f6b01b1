package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"slipway/relay/internal/refusal"
)

// maxParts bounds the fields of a form.
const maxParts = 1000

// fieldFunc takes one field of a body.
type fieldFunc func(name string, v value) error

// eachOf calls f for each field of the body, whatever form it has: what it
// looks like counts for more than what the sender says it is, because curl -d
// calls everything a form and many say nothing at all.
func eachOf(r *http.Request, body []byte, f fieldFunc) error {
	mediaType, params, _ := mime.ParseMediaType(contentTypeOf(r))
	latin, err := isLatin1(params["charset"])
	if err != nil {
		return err
	}
	if latin {
		fields := f
		f = func(name string, v value) error {
			v.raw = fromLatin1(v.raw)
			return fields(name, v)
		}
	}
	switch {
	case mediaType == "multipart/form-data" && params["boundary"] != "":
		return eachPart(multipart.NewReader(bytes.NewReader(body), params["boundary"]), f)
	case mediaType == "application/json" || strings.HasSuffix(mediaType, "+json") || looksLikeJSON(body):
		return eachJSON(body, f)
	case len(bytes.TrimSpace(body)) == 0:
		return nil
	case strings.HasPrefix(mediaType, "multipart/"):
		return errMedia
	case mediaType == "application/x-www-form-urlencoded" || bytes.IndexByte(body, '=') > 0 && bytes.IndexByte(body, '<') < 0:
		return eachPair(string(body), f)
	}
	return errMedia
}

// isLatin1 tells Latin-1 from UTF-8; no other character set is read.
func isLatin1(charset string) (bool, error) {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return false, nil
	case "iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1":
		return true, nil
	}
	return false, &statusError{http.StatusUnsupportedMediaType, "unsupported_media_type", "The character set " + strconv.Quote(charset) + " is not supported: send UTF-8, or ISO-8859-1 (Latin-1)."}
}

func fromLatin1(b []byte) []byte {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return []byte(string(runes))
}

// textOf is the body of a message that is neither JSON nor a form but the message itself, with its format if the
// Content-Type says one: `curl -d hi` sends such a text and calls it a form.
func textOf(r *http.Request, body []byte) (text, format string, ok bool, err error) {
	mediaType, params, _ := mime.ParseMediaType(contentTypeOf(r))
	switch {
	case looksLikeJSON(body) || len(bytes.TrimSpace(body)) == 0:
		return "", "", false, nil
	case mediaType == "text/plain" || mediaType == "text/markdown" || mediaType == "text/html":
		format = mediaType
	case mediaType == "" || mediaType == "application/x-www-form-urlencoded":
		if bytes.ContainsAny(body, "=<") {
			return "", "", false, nil
		}
	default:
		return "", "", false, nil
	}
	latin, err := isLatin1(params["charset"])
	if latin {
		body = fromLatin1(body)
	}
	return string(body), format, true, err
}

func contentTypeOf(r *http.Request) string {
	if h := r.Header["Content-Type"]; len(h) > 0 {
		return h[0]
	}
	return ""
}

func looksLikeJSON(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \n\r\t"), []byte("{"))
}

func eachJSON(body []byte, f fieldFunc) error {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	var refused error
	err := eachField(body, func(key string, raw []byte) error {
		refused = f(key, value{raw: raw})
		return refused
	})
	if err != nil && refused == nil {
		return &refusal.Error{Kind: refusal.KindInvalid, Message: sentence(err)}
	}
	return err
}

func sentence(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func eachPair(body string, f fieldFunc) error {
	if strings.Count(body, "&") > maxParts {
		return invalid("", "A form has at most %d fields.", maxParts)
	}
	values, err := url.ParseQuery(body)
	if err != nil {
		return invalid("", "The body is not a valid form.")
	}
	return eachValue(values, f)
}

func eachValue(values url.Values, f fieldFunc) error {
	for name, list := range values {
		for _, text := range list {
			if err := f(name, formValue(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachPart reads the fields of a multipart form; files are passed over.
func eachPart(parts *multipart.Reader, f fieldFunc) error {
	for range maxParts {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid("", "The body is not a valid multipart form.")
		}
		if part.FormName() == "" || part.FileName() != "" {
			continue
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return invalid("", "The body is not a valid multipart form.")
		}
		if err := f(part.FormName(), value{raw: text, form: true}); err != nil {
			return err
		}
	}
	return invalid("", "A form has at most %d fields.", maxParts)
}
