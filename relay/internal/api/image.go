package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"slipway/relay/internal/account"
)

// getImage answers with an application's picture.
func (a *API) getImage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	data, mediaType, err := a.service.Image(r.Context(), v, idOf(r))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-cache")
	_, _ = w.Write(data) // a client that is gone needs no answer
	return nil
}

// postImage takes a picture as it is, or in the field "file" of a form, as Gotify's clients send it.
func (a *API) postImage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	body, err := a.readBody(r)
	if err != nil {
		return err
	}
	defer body.release()
	data := body.bytes
	if mediaType, params, _ := mime.ParseMediaType(contentTypeOf(r)); mediaType == "multipart/form-data" {
		if data, err = fileOf(multipart.NewReader(bytes.NewReader(data), params["boundary"])); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		return invalid("image", "The body must be an image, or a form with the field file.")
	}
	if err := a.service.SetImage(r.Context(), v, idOf(r), data); err != nil {
		return err
	}
	return a.getApplication(w, r, v)
}

// fileOf is the first file of a form.
func fileOf(parts *multipart.Reader) ([]byte, error) {
	for range maxParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, invalid("", "The body is not a valid multipart form.")
		}
		if part.FileName() != "" {
			return io.ReadAll(part)
		}
	}
	return nil, nil
}

func (a *API) deleteImage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if err := a.service.SetImage(r.Context(), v, idOf(r), nil); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, done{true})
	return nil
}
