package request

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strconv"
	"strings"

	"slipway/relay/internal/refusal"
)

// FileFunc takes a file of a body. name and mediaType are "" where the body doesn't name them with the file. before returns
// what a form holds before the file, as a form; nil for JSON.
type FileFunc func(name, mediaType string, content io.Reader, before func() []byte) error

// HoldsFiles reports whether a body, of which start is the beginning, may hold files that [Lift] takes out.
func HoldsFiles(contentType string, start []byte) bool {
	if mediaType, params, _ := mime.ParseMediaType(contentType); mediaType == "multipart/form-data" && params["boundary"] != "" {
		return bytes.Contains(start, []byte("filename")) || bytes.Contains(start, []byte(base64Field))
	}
	if IsJSON(start) {
		return bytes.Contains(start, []byte(`base64"`))
	}
	return bytes.HasPrefix(start, []byte(inForm)) || bytes.Contains(start, []byte("&"+inForm))
}

// base64Field is the name of a field with a file in base64.
const (
	base64Field = "attachment_base64"
	inForm      = base64Field + "="
)

// Lift reads a body without holding its files in memory: file takes those of a multipart form, the fields attachment_base64, and in
// JSON the strings under base64 within attachments. The body that is left has at most limit bytes, and so has a form that isn't
// multipart. It holds an empty file, or the number of the file from 0 in a string, in place of each.
func Lift(contentType string, body io.Reader, limit int64, file FileFunc) ([]byte, error) {
	if mediaType, params, _ := mime.ParseMediaType(contentType); mediaType == "multipart/form-data" && params["boundary"] != "" {
		return liftParts(body, params["boundary"], limit, file)
	}
	in := bufio.NewReader(body)
	if start, _ := in.Peek(64); !IsJSON(start) {
		return liftPairs(in, limit, file)
	}
	l := &lifter{in: in, limit: limit, file: file}
	err := l.lift()
	return l.out.Bytes(), err
}

// liftPairs reads a form, which is in memory anyway.
func liftPairs(body io.Reader, limit int64, file FileFunc) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, refusal.TooLarge("", "A form may have at most", limit)
	}
	values, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, invalid("", "The body is not a valid form.")
	}
	for i, text := range values[base64Field] {
		if err := decoded(strings.NewReader(text), file, none); err != nil {
			return nil, err
		}
		values[base64Field][i] = strconv.Itoa(i)
	}
	return []byte(values.Encode()), nil
}

// decoded gives file what is in base64.
func decoded(content io.Reader, file FileFunc, before func() []byte) error {
	err := file("", "", base64.NewDecoder(base64.StdEncoding, content), before)
	if errors.As(err, new(base64.CorruptInputError)) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("attachments", "An attachment is not valid base64.")
	}
	return err
}

func liftParts(body io.Reader, boundary string, limit int64, file FileFunc) ([]byte, error) {
	parts := multipart.NewReader(body, boundary)
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(boundary); err != nil {
		return nil, invalid("", "The body is not a valid multipart form.")
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
			return nil, invalid("", "The body is not a valid multipart form.")
		}
		inBase64 := part.FormName() == base64Field && part.FileName() == ""
		switch {
		case part.FileName() != "":
			err = file(part.FileName(), part.Header.Get("Content-Type"), part, closed)
		case inBase64:
			err = decoded(part, file, closed)
		}
		if err != nil {
			return nil, err
		}
		copied, err := w.CreatePart(part.Header)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(copied, io.LimitReader(part, limit-int64(out.Len())+1))
		if err != nil {
			return nil, invalid("", "The body is not a valid multipart form.")
		}
		if int64(out.Len()) > limit {
			return nil, refusal.TooLarge("", "A body without its files may have at most", limit)
		}
	}
	return nil, invalid("", "A form has at most %d fields.", maxFields)
}

// lifter copies JSON, which it doesn't check.
type lifter struct {
	in    *bufio.Reader
	out   bytes.Buffer
	limit int64
	file  FileFunc

	last   string // the last string, which is a key if a colon follows
	key    string // of the next value
	depth  int
	within int // the depth of the value of attachments, which the reader is in; 0 for none
	files  int
}

func (l *lifter) lift() error {
	for {
		c, err := l.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if int64(l.out.Len()) >= l.limit {
			return refusal.TooLarge("", "A body without its files may have at most", l.limit)
		}
		switch c {
		case '"':
			if l.key == base64Field || l.key == "base64" && l.within > 0 {
				err = l.string64()
			} else {
				err = l.text()
			}
			if err != nil {
				return err
			}
			continue
		case ':':
			l.key = l.last
		case '{', '[':
			l.depth++
			if l.within == 0 && l.key == "attachments" {
				l.within = l.depth
			}
			l.key = ""
		case '}', ']':
			if l.depth == l.within {
				l.within = 0
			}
			l.depth--
			l.key = ""
		case ',':
			l.key = ""
		}
		l.out.WriteByte(c)
	}
}

// text copies a string.
func (l *lifter) text() error {
	start := l.out.Len()
	l.out.WriteByte('"')
	for escaped := false; ; {
		c, err := l.in.ReadByte()
		if err != nil {
			return endOf(err)
		}
		if int64(l.out.Len()) >= l.limit {
			return refusal.TooLarge("", "A body without its files may have at most", l.limit)
		}
		l.out.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			l.last = ""
			if text := l.out.Bytes()[start+1 : l.out.Len()-1]; len(text) <= len(base64Field) {
				l.last = string(text)
			}
			return nil
		}
	}
}

// string64 gives a string in base64 to file.
func (l *lifter) string64() error {
	content := &stringReader{in: l.in}
	if l.files == maxFields {
		return invalid("attachments", "A message has too many attachments.")
	}
	if err := decoded(content, l.file, none); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, content); err != nil { // what follows the padding
		return err
	}
	fmt.Fprintf(&l.out, `"%d"`, l.files)
	l.files++
	return nil
}

func none() []byte { return nil }

// stringReader reads a string of JSON up to its closing quote, without white space and escapes but those of a slash.
type stringReader struct {
	in     *bufio.Reader
	closed bool
}

// Read implements [io.Reader].
func (s *stringReader) Read(p []byte) (n int, err error) {
	for n < len(p) && !s.closed {
		c, err := s.in.ReadByte()
		switch {
		case err != nil:
			return n, endOf(err)
		case c == '"':
			s.closed = true
			continue
		case c == '\\':
			if c, err = s.escaped(); err != nil {
				return n, err
			}
		}
		p[n] = c
		n++
		if n > 0 && s.in.Buffered() == 0 {
			break
		}
	}
	if n == 0 && s.closed {
		return 0, io.EOF
	}
	return n, nil
}

// escaped reads the rest of an escape sequence. White space becomes what the decoder passes over.
func (s *stringReader) escaped() (byte, error) {
	c, err := s.in.ReadByte()
	if err != nil || c != 'u' {
		if c == 'n' || c == 'r' || c == 't' {
			c = '\n'
		}
		return c, endOf(err)
	}
	var digits [4]byte
	if _, err := io.ReadFull(s.in, digits[:]); err != nil {
		return 0, errCutShort
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 8)
	if err != nil {
		return 0, errCutShort
	}
	return byte(n), nil
}

var errCutShort = &refusal.Error{Kind: refusal.KindInvalid, Message: "The body is not valid JSON."}

func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return errCutShort
	}
	return err
}
