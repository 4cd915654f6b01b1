package request

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"slipway/relay/internal/refusal"
)

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
