package web

import (
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/registry/internal/oci"
)

// getDownload sends a blob as a file, which no browser shows as a page.
func (web *Web) getDownload(w http.ResponseWriter, v *visit) error {
	repo, err := web.repository(v)
	if err != nil {
		return err
	}
	d, err := oci.ParseDigest(mux.Vars(v.Request)["reference"])
	if err != nil {
		return errHidden
	}
	blob, err := repo.OpenBlob(v.Context(), d)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // read only
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(v.URL.Query().Get("name"), d)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "no-store")
	web.o.API.Download(w, v.Request, v.grant, repo.Name(), d, blob.Size(), func() { http.ServeContent(w, v.Request, "", time.Time{}, blob) })
	return nil
}

// fileName is the name of the file to store: the one that the image gives it, if that is a plain one.
func fileName(name string, d oci.Digest) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+", r)
	}
	if name == "" || len(name) > 200 || name[0] == '.' || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return d.Hex()[:12]
	}
	return name
}
