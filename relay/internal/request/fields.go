// Package request reads what clients send: the fields of a body (JSON, a form, or a multipart form), the client's address and the
// origin of a page. It bounds how much of it there may be, and writes refusals as answers.
package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strconv"
	"strings"

	"slipway/relay/internal/refusal"
)

// maxFields bounds the fields of a form.
const maxFields = 1000

// errMedia refuses a body that is neither JSON nor a form nor text.
var errMedia = &refusal.Error{Kind: refusal.KindMediaType, Message: `The body must be JSON such as {"message": "text"}, a form, or a text with "Content-Type: text/plain".`}

var (
	errForm       = invalid("", "The body is not a valid multipart form.")
	errManyFields = invalid("", "A form has at most %d fields.", maxFields)
)

// Func handles one field of a body.
type Func func(name string, v Value) error

// Each calls f for each field of a body. A body that begins like JSON is read as JSON whatever its content type, because curl -d
// calls everything a form and many senders name no type.
func Each(contentType string, body []byte, f Func) error {
	mediaType, params, _ := mime.ParseMediaType(contentType)
	latin, err := isLatin1(params["charset"])
	if err != nil {
		return err
	}
	if latin {
		fields := f
		f = func(name string, v Value) error {
			v.raw = FromLatin1(v.raw)
			return fields(name, v)
		}
	}
	switch {
	case mediaType == "multipart/form-data" && params["boundary"] != "":
		return eachPart(multipart.NewReader(bytes.NewReader(ended(body, params["boundary"])), params["boundary"]), f)
	case mediaType == "application/json" || strings.HasSuffix(mediaType, "+json") || IsJSON(body):
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

// isLatin1 reports whether a character set is Latin-1. Besides it only UTF-8 is supported.
func isLatin1(charset string) (bool, error) {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return false, nil
	case "iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1":
		return true, nil
	}
	return false, &refusal.Error{Kind: refusal.KindMediaType, Message: "The character set " + strconv.Quote(charset) + " is not supported: send UTF-8, or ISO-8859-1 (Latin-1)."}
}

// FromLatin1 returns text in ISO 8859-1 as UTF-8.
func FromLatin1(b []byte) []byte {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return []byte(string(runes))
}

// Text returns a body that is the text itself, neither JSON nor a form, and its media type if the content type
// names one: `curl -d hi` sends such a text and calls it a form. ok is false for any other body.
func Text(contentType string, body []byte) (text, mediaType string, ok bool, err error) {
	named, params, _ := mime.ParseMediaType(contentType)
	switch {
	case IsJSON(body) || len(bytes.TrimSpace(body)) == 0:
		return "", "", false, nil
	case named == "text/plain" || named == "text/markdown" || named == "text/html":
		mediaType = named
	case named == "" || named == "application/x-www-form-urlencoded":
		if bytes.ContainsAny(body, "=<") {
			return "", "", false, nil
		}
	default:
		return "", "", false, nil
	}
	latin, err := isLatin1(params["charset"])
	if latin {
		body = FromLatin1(body)
	}
	return string(body), mediaType, true, err
}

// Mark is the byte order mark of UTF-8, with which some programs begin a body.
const Mark = "\xef\xbb\xbf"

// IsJSON reports whether a body begins like a JSON object.
func IsJSON(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(body, []byte(Mark)), " \n\r\t"), []byte("{"))
}

func eachJSON(body []byte, f Func) error {
	var object map[string]json.RawMessage
	err := Unmarshal(bytes.TrimPrefix(body, []byte(Mark)), &object)
	switch {
	case errors.Is(err, errManyValues):
		return err
	case errors.As(err, new(*json.UnmarshalTypeError)), err == nil && object == nil:
		return invalid("", "The body is not a JSON object.")
	case err != nil:
		return &refusal.Error{Kind: refusal.KindInvalid, Message: "The body is not valid JSON.", Err: err}
	}
	for name, raw := range object {
		if err := f(name, Value{raw: raw}); err != nil {
			return err
		}
	}
	return nil
}

// Long JSON may have few short values: each takes up to about 100 bytes while it is parsed.
const (
	manyMarks = 2000 // of punctuation
	markSize  = 10   // bytes of a text for each mark beyond manyMarks
)

var errManyValues = &refusal.Error{Kind: refusal.KindTooLarge, Message: "The JSON has too many short values."}

// Unmarshal is [json.Unmarshal] for what a client has sent. It fails if the values are too many and too short: parsing them would take
// many times their size in memory.
func Unmarshal(data []byte, v any) error {
	if limit := manyMarks + len(data)/markSize; len(data) > limit && marks(data) > limit {
		return errManyValues
	}
	return json.Unmarshal(data, v)
}

// marks counts what precedes the values of JSON, and the names of fields.
func marks(data []byte) (n int) {
	quoted := false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++
		case ',', ':', '[', '{':
			if !quoted {
				n++
			}
		}
	}
	return n
}

func eachPair(body string, f Func) error {
	if strings.Count(body, "&") > maxFields {
		return errManyFields
	}
	values, err := url.ParseQuery(body)
	if err != nil {
		return invalid("", "The body is not a valid form.")
	}
	return EachOf(values, f)
}

// EachOf calls f for each value of a form or query.
func EachOf(values url.Values, f Func) error {
	for name, list := range values {
		for _, text := range list {
			if err := f(name, Value{raw: []byte(text), form: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended returns a multipart form with a line break before its end, which a client of Pushover's forgets.
func ended(body []byte, boundary string) []byte {
	end := "--" + boundary + "--"
	start, found := bytes.CutSuffix(bytes.TrimRight(body, "\r\n"), []byte(end))
	if !found || len(start) == 0 || bytes.HasSuffix(start, []byte("\n")) {
		return body
	}
	return append(bytes.Clone(start), "\r\n"+end+"\r\n"...)
}

// eachPart reads the fields of a multipart form.
func eachPart(parts *multipart.Reader, f Func) error {
	for range maxFields {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errForm
		}
		if part.FormName() == "" {
			continue
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return errForm
		}
		if err := f(part.FormName(), Value{raw: text, form: true, file: part.FileName() != ""}); err != nil {
			return err
		}
	}
	return errManyFields
}

// FileFunc takes a file of a form. before returns the form's fields before the file, as a form.
type FileFunc func(name, mediaType string, content io.Reader, before func() []byte) error

// Boundary returns the boundary of a multipart form; "" for other content types.
func Boundary(contentType string) string {
	const form = "multipart/form-data"
	if len(contentType) < len(form) || !strings.EqualFold(contentType[:len(form)], form) { // most
		return ""
	}
	_, params, _ := mime.ParseMediaType(contentType)
	return params["boundary"]
}

// ReadForm reads a multipart form without holding its files in memory: file takes each of them. It returns the form with
// empty files, which has at most limit bytes.
func ReadForm(body io.Reader, boundary string, limit int64, file FileFunc) ([]byte, error) {
	parts := multipart.NewReader(body, boundary)
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(boundary); err != nil {
		return nil, errForm
	}
	closed := func() []byte {
		end := "\r\n--" + boundary + "--\r\n"
		return append(bytes.Clone(out.Bytes()), end...)
	}
	for range maxFields {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return closed(), nil
		}
		if err != nil {
			return nil, errForm
		}
		if part.FileName() != "" {
			if err := file(part.FileName(), part.Header.Get("Content-Type"), part, closed); err != nil {
				return nil, err
			}
		}
		copied, err := w.CreatePart(part.Header)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(copied, io.LimitReader(part, limit-int64(out.Len())+1)); err != nil {
			return nil, errForm
		}
		if int64(out.Len()) > limit {
			return nil, refusal.TooLarge("", "A form without its files may have at most limits.body,", limit)
		}
	}
	return nil, errManyFields
}
