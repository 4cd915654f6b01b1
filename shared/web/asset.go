package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strings"
)

//go:embed static templates
var files embed.FS

// Asset is a file whose name contains the hash of its content, so that browsers may cache it forever.
type Asset struct {
	Name, kind string
	body       []byte
}

func newAsset(name, kind string, parts ...[]byte) Asset {
	var body []byte
	for _, part := range parts {
		body = append(body, part...)
	}
	h := sha256.Sum256(body)
	stem, ext, _ := strings.Cut(name, ".")
	return Asset{Name: stem + "." + hex.EncodeToString(h[:6]) + "." + ext, kind: kind, body: body}
}

// ServeHTTP implements http.Handler.
func (a Asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("ETag", `"`+a.Name+`"`)
	if r.Header.Get("If-None-Match") == `"`+a.Name+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(a.body) // a closed connection needs no file
}
