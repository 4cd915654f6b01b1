package api

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"slipway/relay/internal/refusal"
)

// decoded returns a request whose body is no longer compressed by gzip. Limits count what comes out. Other encodings are refused, except that of
// encrypted messages of Web Push, which is part of them.
func decoded(r *http.Request) (*http.Request, error) {
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity", "aes128gcm":
		return r, nil
	case "gzip", "x-gzip":
	default:
		return nil, &refusal.Error{Kind: refusal.KindMediaType, Message: fmt.Sprintf("The body has the Content-Encoding %q: send it without, or with gzip.", encoding)}
	}
	out := *r
	out.Header = r.Header.Clone()
	out.Header.Del("Content-Encoding")
	out.ContentLength = -1
	out.Body = &gunzip{from: r.Body}
	return &out, nil
}

// gunzip decompresses a body while it is read.
type gunzip struct {
	from io.ReadCloser
	z    *gzip.Reader
}

// Read implements [io.Reader].
func (g *gunzip) Read(p []byte) (n int, err error) {
	if g.z == nil {
		if g.z, err = gzip.NewReader(g.from); err != nil {
			return 0, err
		}
	}
	return g.z.Read(p)
}

// Close implements [io.Closer].
func (g *gunzip) Close() error { return g.from.Close() }
