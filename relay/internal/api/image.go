package api

import (
	_ "embed"
	"mime"
	"net/http"

	"github.com/gorilla/mux"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// getImage answers with an application's picture.
func (a *API) getImage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	data, mediaType, err := a.service.Image(r.Context(), v, idOf(r))
	if err != nil {
		return err
	}
	showImage(w, data, mediaType)
	return nil
}

// getNamedImage answers with a picture to Gotify's clients, which ask for it without a token.
func (a *API) getNamedImage(w http.ResponseWriter, r *http.Request) error {
	data, mediaType, err := a.service.NamedImage(r.Context(), mux.Vars(r)["name"])
	if err != nil {
		return err
	}
	showImage(w, data, mediaType)
	return nil
}

const defaultImagePath = "/static/defaultapp.png"

//go:embed defaultapp.png
var defaultImage []byte

// getDefaultImage answers with the picture of applications that have none, at the path that Gotify's clients expect.
func (a *API) getDefaultImage(w http.ResponseWriter, _ *http.Request) error {
	showImage(w, defaultImage, "image/png")
	return nil
}

func showImage(w http.ResponseWriter, data []byte, mediaType string) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-cache")
	_, _ = w.Write(data) // a closed connection needs no answer
}

// postImage takes a picture as it is, or in the field "file" of a form, as Gotify's clients send it.
func (a *API) postImage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	b, err := a.readBody(r)
	if err != nil {
		return err
	}
	defer b.release()
	data := b.Bytes()
	contentType := r.Header.Get("Content-Type")
	if mediaType, _, _ := mime.ParseMediaType(contentType); mediaType == "multipart/form-data" {
		if data, err = fileOf(contentType, data); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		return refusal.Invalid("image", "The body must be an image, or a form with the field file.")
	}
	if err := a.service.SetImage(r.Context(), v, idOf(r), data); err != nil {
		return err
	}
	return a.getApplication(w, r, v)
}

// fileOf returns the last file of a form; nil if it has none.
func fileOf(contentType string, form []byte) (data []byte, err error) {
	err = request.Each(contentType, form, func(_ string, v request.Value) error {
		if content, ok := v.File(); ok {
			data = content
		}
		return nil
	})
	return data, err
}

func (a *API) deleteImage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	return answer(w, done{true}, a.service.SetImage(r.Context(), v, idOf(r), nil))
}
