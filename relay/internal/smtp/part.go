package smtp

import (
	"cmp"
	"encoding/base64"
	"errors"
	"html"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
)

// text is what a part says, in one form or both.
type text struct{ plain, html string }

// reader reads the parts of a mail.
type reader struct {
	maxText int
	file    FileFunc
	parts   int // that may still come
	read    int // bytes of text
}

// part reads a part with what it holds.
func (r *reader) part(h textproto.MIMEHeader, body io.Reader, depth int) (t text, err error) {
	if r.parts--; r.parts < 0 || depth > maxDepth {
		return t, ErrMalformed
	}
	contentType := h.Get("Content-Type")
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType, params = typeAlone(contentType), nil
	}
	if strings.HasPrefix(mediaType, "multipart/") && params["boundary"] != "" {
		return r.multipart(multipart.NewReader(body, params["boundary"]), mediaType, depth)
	}
	disposition, named, _ := mime.ParseMediaType(h.Get("Content-Disposition"))
	name := decode(cmp.Or(named["filename"], params["name"]))
	content := decoded(h.Get("Content-Transfer-Encoding"), body)
	if disposition != "attachment" && name == "" && (mediaType == "text/plain" || mediaType == "text/html") {
		return r.text(content, mediaType, params)
	}
	if name == "" && mediaType == "message/rfc822" {
		name = "message.eml"
	}
	if err := r.file(name, mediaType, content); err != nil {
		return t, malformed(err)
	}
	return t, nil
}

// typeAlone returns the media type of a Content-Type whose parameters can't be read.
func typeAlone(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); {
	case contentType == "":
		return "text/plain"
	case !strings.Contains(mediaType, "/") || strings.HasPrefix(mediaType, "multipart/"):
		return "application/octet-stream"
	}
	return mediaType
}

func (r *reader) text(content io.Reader, mediaType string, params map[string]string) (t text, err error) {
	s, err := readText(content, params["charset"], r.maxText)
	if r.read += len(s); r.read > 2*r.maxText || errors.Is(err, ErrTooLong) {
		return t, ErrTooLong
	}
	// What is wrongly encoded ends a text, and doesn't lose what precedes it.
	if mediaType == "text/html" {
		return text{html: s}, nil
	}
	if strings.EqualFold(params["format"], "flowed") {
		s = unflow(s, strings.EqualFold(params["delsp"], "yes"))
	}
	return text{plain: s}, nil
}

// multipart reads the parts of a part: alternatives, of which the last is the best, or what follows each other.
func (r *reader) multipart(parts *multipart.Reader, mediaType string, depth int) (all text, err error) {
	for {
		p, err := parts.NextRawPart()
		if err != nil { // the end, also one without the last boundary
			return all, nil //nolint:nilerr // Read notices a mail that is cut short
		}
		t, err := r.part(p.Header, p, depth+1)
		if err != nil {
			return all, err
		}
		if mediaType == "multipart/alternative" {
			all.plain, all.html = cmp.Or(t.plain, all.plain), cmp.Or(t.html, all.html)
		} else {
			all = all.and(t)
		}
	}
}

// and returns a text followed by another. It has HTML if one of them has.
func (t text) and(next text) (all text) {
	all.plain = join(t.plain, next.plain, "\n\n")
	if t.html != "" || next.html != "" {
		all.html = join(t.asHTML(), next.asHTML(), "\n")
	}
	return all
}

func (t text) asHTML() string {
	if t.html == "" && t.plain != "" {
		return "<p>" + strings.ReplaceAll(html.EscapeString(t.plain), "\n", "<br>\n") + "</p>"
	}
	return t.html
}

func join(a, b, between string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + between + b
}

// decoded returns content without its transfer encoding.
func decoded(encoding string, content io.Reader) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		return base64.NewDecoder(base64.RawStdEncoding, alphabet{content})
	case "quoted-printable":
		return quotedprintable.NewReader(content)
	}
	return content
}

// alphabet passes on the characters of base64 without padding.
type alphabet struct{ from io.Reader }

// Read implements [io.Reader].
func (a alphabet) Read(p []byte) (int, error) {
	for {
		n, err := a.from.Read(p)
		kept := p[:0]
		for _, c := range p[:n] {
			if 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/' {
				kept = append(kept, c)
			}
		}
		if len(kept) > 0 || err != nil {
			return len(kept), err
		}
	}
}

// malformed returns ErrMalformed for an error of a transfer encoding.
func malformed(err error) error {
	if errors.As(err, new(base64.CorruptInputError)) || errors.Is(err, io.ErrUnexpectedEOF) || strings.HasPrefix(err.Error(), "quotedprintable:") {
		return ErrMalformed
	}
	return err
}
