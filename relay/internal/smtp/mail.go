package smtp

import (
	"bufio"
	"errors"
	"io"
	"net/textproto"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
)

// Mail is a mail as a message shows it.
type Mail struct {
	ID       string // Message-ID; "" for none
	Date     string // as the sender wrote it; "" for none
	Subject  string
	From     string
	Text     string
	HTML     bool // Text is HTML
	Priority int  // 1 for high, -1 for low, 0 for normal
}

// FileFunc takes an attachment. name may be empty.
type FileFunc func(name, mediaType string, content io.Reader) error

// ErrTooLong means that the text or a header has more bytes than a message may have.
var ErrTooLong = errors.New("the text of the mail is too long")

// ErrMalformed means that the mail cannot be understood.
var ErrMalformed = errors.New("the mail is malformed")

const (
	maxHeader  = 256 << 10 // bytes
	maxSubject = 1000
	maxDepth   = 10
	maxParts   = 200
)

// readMail reads a mail up to its end. HTML is preferred to the same text without it; each may have maxText bytes. Errors of from and of
// file are returned as they are.
func readMail(from io.Reader, maxText int, file FileFunc) (m Mail, err error) {
	source := &raw{from: from}
	header := &io.LimitedReader{R: source, N: maxHeader}
	in, body, err := readHeader(bufio.NewReader(header))
	switch {
	case source.err != nil:
		return m, source.err
	case header.N <= 0:
		return m, ErrTooLong
	case err != nil:
		return m, ErrMalformed
	}
	header.N = 1 << 62
	m.Subject = format.Cut(decode(in.Get("Subject")), maxSubject)
	m.ID, m.Date, m.From, m.Priority = in.Get("Message-ID"), in.Get("Date"), format.Cut(decode(in.Get("From")), maxSubject), priority(in)
	r := &reader{maxText: maxText, file: file, parts: maxParts}
	t, err := r.part(in, body, 0)
	if err == nil {
		_, err = io.Copy(io.Discard, source)
	}
	if source.err != nil {
		err = source.err
	}
	if err != nil {
		return m, err
	}
	m.Text, m.HTML = t.plain, t.html != ""
	if m.HTML {
		m.Text = t.html
	}
	return m, nil
}

// raw records a read error.
type raw struct {
	from io.Reader
	err  error
}

// Read implements [io.Reader].
func (s *raw) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// decode decodes encoded words (RFC 2047) and makes one line of a header.
func decode(s string) string {
	return strings.Join(strings.Fields(post.Clean(decodeWords(s))), " ")
}

// priority reads the headers that mail programs mark important emails with.
func priority(h textproto.MIMEHeader) int {
	for _, name := range []string{"Importance", "X-Priority", "Priority", "X-MSMail-Priority"} {
		word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(h.Get(name))), " ")
		switch word {
		case "high", "urgent", "1", "2":
			return 1
		case "low", "non-urgent", "4", "5":
			return -1
		}
	}
	return 0
}

// readText decodes a text to UTF-8 with line feeds. It keeps the indent of the first line.
func readText(content io.Reader, label string, limit int) (string, error) {
	b, err := io.ReadAll(io.LimitReader(content, 2*int64(limit)+2)) // UTF-16 has up to twice the bytes
	s := strings.ReplaceAll(toUTF8(b, label), "\r\n", "\n")
	if len(s) > limit {
		return "", ErrTooLong
	}
	return format.TrimLines(post.Clean(s)), err
}
