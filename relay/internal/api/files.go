package api

import (
	"bytes"
	"cmp"
	"io"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/service"
)

// receiver reads a body with files, which it stores while they arrive. Until the token is known it holds them in memory, within the
// limit of a body.
type receiver struct {
	a    *API
	p    protocol.Protocol
	in   *protocol.Request
	body *body
	app  *account.App // nil until the token is known

	name     string // of the file that the body is
	boundary string // of the form that the body is; "" for a file
	buffered int64  // bytes of files in memory
}

// receiverOf returns a receiver if the files of a body are stored while they arrive; else nil.
func (a *API) receiverOf(p protocol.Protocol, in *protocol.Request, b *body, app *account.App) *receiver {
	r := &receiver{a: a, p: p, in: in, body: b, app: app}
	if p.Raw != nil && b.Len() > 0 {
		if name, ok := p.Raw(in, b.Bytes()); ok {
			r.name = name
			return r
		}
	}
	if p.Files {
		r.boundary = request.Boundary(in.Header.Get("Content-Type"))
	}
	if r.boundary == "" || !b.big() && !bytes.Contains(b.Bytes(), []byte("filename")) {
		return nil
	}
	return r
}

// receive reads the body. The application is nil if the token is in the body, or names a user and the body the application.
func (r *receiver) receive() (*account.App, error) {
	err := r.take()
	if err == nil {
		err = r.body.rest.explain(r.read())
	}
	if r.app != nil && refusal.KindOf(err) == refusal.KindTooLarge {
		_, _ = io.Copy(io.Discard, &r.body.rest) // a proxy that is still sending the body would lose the answer
	}
	if err == nil && r.app == nil {
		var failure error
		if r.in.Token == "" {
			r.in.Token, failure = r.p.Token(r.in)
		}
		err = r.authenticate(r.in, failure)
	}
	if err != nil {
		r.a.detach(r.in)
	}
	return r.app, err
}

func (r *receiver) read() (err error) {
	all := io.MultiReader(bytes.NewReader(r.body.Bytes()), &r.body.rest)
	if r.boundary == "" {
		return r.file(r.name, r.in.Header.Get("Content-Type"), all, func() []byte { return nil })
	}
	r.in.Body, err = request.ReadForm(all, r.boundary, r.a.maxBody.Load(), r.file)
	return err
}

// take waits for the memory of what isn't stored, and gives the files of an application more time.
func (r *receiver) take() error {
	if !r.body.big() {
		return nil
	}
	err := r.body.take(r.a.shareOf(r.in.Request, r.app), r.a.maxBody.Load())
	if r.app != nil {
		r.body.rest.end = time.Now().Add(filesTime)
	}
	return err
}

// authenticate finds the application by the token in the fields that were read so far.
func (r *receiver) authenticate(in *protocol.Request, err error) error {
	if err == nil {
		r.app, err = r.a.sender(r.p, in)
	}
	if err == nil && r.app == nil { // a body of files alone names none
		r.app, err = r.a.service.Sender(in.Context(), in.Token)
	}
	if err != nil {
		return r.a.wrongToken(r.in.Request, err)
	}
	r.in.Token = in.Token
	return r.take()
}

// file takes a file of the body.
func (r *receiver) file(name, mediaType string, content io.Reader, before func() []byte) error {
	if len(r.in.Files) == service.MaxAttachments { // before the fields are read once more for this file
		return service.ErrTooManyAttachments
	}
	if r.app == nil {
		probe := *r.in
		if probe.Body = before(); probe.Body != nil {
			if token, err := r.p.Token(&probe); err == nil && token != "" {
				probe.Token = token
				if err := r.authenticate(&probe, nil); err != nil {
					return err
				}
			}
		}
	}
	switch mediaType { // curl names the second for everything
	case "application/octet-stream", "application/x-www-form-urlencoded":
		mediaType = ""
	}
	f := protocol.File{Name: name, Type: mediaType}
	if r.app != nil {
		r.in.Files = append(r.in.Files, f)
		return r.a.store(r.in, r.app, len(r.in.Files)-1, content)
	}
	var err error
	limit := r.a.maxBody.Load()
	if f.Content, err = io.ReadAll(io.LimitReader(content, limit-r.buffered+1)); err != nil {
		return err
	}
	if r.buffered += int64(len(f.Content)); r.buffered > limit {
		return refusal.TooLarge("attachments", "Give the token in a header, or before the attachments of a form. Without it they may have at most limits.body,", limit)
	}
	r.in.Files = append(r.in.Files, f)
	return nil
}

// attach stores the files of a request that are in memory.
func (a *API) attach(in *protocol.Request, app *account.App) error {
	if len(in.Files) > service.MaxAttachments {
		return service.ErrTooManyAttachments
	}
	for i, f := range in.Files {
		if f.ID != 0 {
			continue
		}
		if err := a.store(in, app, i, bytes.NewReader(f.Content)); err != nil {
			return err
		}
	}
	return nil
}

// store stores the content of the file with a number, which keeps its name, and its type if it has one.
func (a *API) store(in *protocol.Request, app *account.App, number int, content io.Reader) error {
	left := a.service.MaxAttachments()
	for _, f := range in.Files {
		left -= f.Size
	}
	stored, err := a.service.Attach(in.Context(), app.ID, content, left)
	if err != nil {
		return err
	}
	f := &in.Files[number]
	stored.Name, stored.Type = f.Name, cmp.Or(f.Type, stored.Type)
	*f = stored
	return nil
}

// detach removes the files of a request whose message was not accepted now.
func (a *API) detach(in *protocol.Request) {
	if err := a.service.Detach(in.Context(), in.Files...); err != nil {
		a.log.Warn("cannot remove the attachments of a message that was not accepted: they are removed in an hour", zap.Error(err))
	}
	in.Files = nil
}
