package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strings"

	"slipway/relay/internal/refusal"

	"github.com/gorilla/mux"
)

//go:embed static
var staticFiles embed.FS

// asset is a file whose path contains the hash of its content, so that browsers may cache it forever.
type asset struct {
	name, kind string
	body       []byte
}

func loadAsset(name, kind string) (asset, error) {
	body, err := staticFiles.ReadFile("static/" + name)
	if err != nil {
		return asset{}, err
	}
	h := sha256.Sum256(body)
	stem, ext, _ := strings.Cut(name, ".")
	return asset{name: stem + "." + hex.EncodeToString(h[:6]) + "." + ext, kind: kind, body: body}, nil
}

func (a asset) path() string { return "/ui/static/" + a.name }

func (web *Web) getStatic(w http.ResponseWriter, r *http.Request) error {
	for _, a := range []asset{web.style, web.icon, web.script} {
		if a.name != mux.Vars(r)["name"] {
			continue
		}
		h := w.Header()
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("ETag", `"`+a.name+`"`)
		if r.Header.Get("If-None-Match") == `"`+a.name+`"` {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		_, _ = w.Write(a.body)
		return nil
	}
	return &refusal.Error{Kind: refusal.KindNotFound, Message: "There is no such file."}
}
