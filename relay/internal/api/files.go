package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/service"
)

const (
	filesTime    = 10 * time.Minute // for a body with files; the server ends transfers that stall
	filesSenders = 16               // bodies with files at a time
	shareFiles   = 4                // of one application
)

// maxFilesBody is the size of a body with files: those in base64 take a third more.
func (a *API) maxFilesBody() int64 {
	limit := a.service.MaxAttachments()
	return a.maxBody.Load() + limit + limit/2
}

// holdsFiles reports whether a receiver must read a body that begins with start.
func holdsFiles(p *protocol.Protocol, in *protocol.Request, start []byte) bool {
	if p.Raw != nil && len(start) > 0 {
		if _, ok := p.Raw(in, start); ok {
			return true
		}
	}
	return p.Files && request.HoldsFiles(in.Header.Get("Content-Type"), start)
}

// mayHoldFiles is holdsFiles for a body of which more may come.
func mayHoldFiles(p *protocol.Protocol, in *protocol.Request, start []byte) bool {
	contentType := in.Header.Get("Content-Type")
	return holdsFiles(p, in, start) || p.Files && (strings.HasPrefix(strings.ToLower(contentType), "multipart/form-data") || request.IsJSON(start))
}

// receiver reads a body with files, which it stores while they arrive. Until the token is known it holds them in memory, within the
// limit of a body.
type receiver struct {
	a  *API
	p  protocol.Protocol
	in *protocol.Request

	app     *account.App // nil until the token is known
	source  *timedReader
	left    int64 // of the attachments, in bytes
	release func()
	held    [][]byte // content of the request's first files
	size    int      // of held
}

// receiveFiles reads the rest of a body that begins with start. app is nil if the token is in the body, or names a user and the body
// the application.
func (a *API) receiveFiles(p protocol.Protocol, in *protocol.Request, start []byte, app *account.App) (_ *account.App, release func(), err error) {
	r := &receiver{a: a, p: p, in: in, left: a.service.MaxAttachments(), release: func() {}}
	defer func() {
		if err != nil {
			r.release()
			a.detach(in)
		}
	}()
	r.source = &timedReader{from: io.MultiReader(bytes.NewReader(start), http.MaxBytesReader(nil, in.Request.Body, a.maxFilesBody())), end: time.Now().Add(placeTime)}
	if app == nil {
		err = r.wait(a.strangers(in.Request))
	} else {
		err = r.accept(app)
	}
	if err == nil {
		err = r.read(start)
	}
	if r.app != nil && refusal.KindOf(err) == refusal.KindTooLarge {
		_, _ = io.Copy(io.Discard, r.source) // a proxy that is still sending the body would lose the answer
	}
	if err == nil && r.app == nil {
		var failure error
		if in.Token == "" {
			in.Token, failure = p.Token(in)
		}
		err = r.authenticate(in, failure)
	}
	return r.app, r.release, err
}

// read reads the body.
func (r *receiver) read(start []byte) (err error) {
	if r.p.Raw != nil {
		if name, ok := r.p.Raw(r.in, start); ok {
			return r.source.explain(r.file(name, r.in.Header.Get("Content-Type"), r.source, func() []byte { return nil }))
		}
	}
	r.in.Body, err = request.Lift(r.in.Header.Get("Content-Type"), r.source, r.a.maxBody.Load(), r.file)
	return r.source.explain(err)
}

// wait takes a place among readers.
func (r *receiver) wait(rd reader) error {
	release, err := rd.places.Take(r.in.Context(), rd.client)
	if err != nil {
		return placesTaken(err)
	}
	r.release()
	r.release = release
	return nil
}

// accept continues for an application, with its places and more time.
func (r *receiver) accept(app *account.App) error {
	rd := r.a.readerFor("application " + strconv.FormatInt(app.Row().ID, 10))
	rd.places = r.a.files
	if err := r.wait(rd); err != nil {
		return err
	}
	r.app, r.source.end = app, time.Now().Add(filesTime)
	return nil
}

// authenticate finds the application by the token in the fields that were read so far, and stores the files that were read before
// it.
func (r *receiver) authenticate(in *protocol.Request, err error) error {
	var app *account.App
	if err == nil {
		app, err = r.a.sender(r.p, in)
	}
	if err == nil && app == nil { // a body of files alone names none
		app, err = r.a.service.Sender(in.Context(), in.Token)
	}
	if err != nil {
		return r.a.slowDown(r.in.Request, err)
	}
	r.in.Token = in.Token
	if err := r.accept(app); err != nil {
		return err
	}
	for i, content := range r.held {
		if err := r.store(&r.in.Files[i], bytes.NewReader(content)); err != nil {
			return err
		}
	}
	r.held = nil
	return nil
}

// file takes a file of the body.
func (r *receiver) file(name, mediaType string, content io.Reader, before func() []byte) error {
	if len(r.in.Files) == service.MaxAttachments { // before the fields are read once more for this file
		return service.ErrTooManyAttachments
	}
	if fields := before(); r.app == nil && fields != nil {
		probe := *r.in
		probe.Body = fields
		if token, err := r.p.Token(&probe); err == nil && token != "" {
			probe.Token = token
			if err := r.authenticate(&probe, nil); err != nil {
				return err
			}
		}
	}
	switch mediaType { // curl names the second for everything
	case "application/octet-stream", "application/x-www-form-urlencoded":
		mediaType = ""
	}
	r.in.Files = append(r.in.Files, protocol.File{Name: name, Type: mediaType})
	if r.app != nil {
		return r.store(&r.in.Files[len(r.in.Files)-1], content)
	}
	rest := r.a.maxBody.Load() - int64(r.size)
	b, err := io.ReadAll(io.LimitReader(content, rest+1))
	if err != nil {
		return err
	}
	if int64(len(b)) > rest {
		return refusal.TooLarge("attachments", "Give the token in a header, or before the attachments of a form. Without it they may have at most", r.a.maxBody.Load())
	}
	r.held, r.size = append(r.held, b), r.size+len(b)
	return nil
}

// store stores the content of a file, which keeps its name, and its type if it has one.
func (r *receiver) store(f *protocol.File, content io.Reader) error {
	stored, err := r.a.service.Attach(r.in.Context(), r.app.Row().ID, content, r.left)
	if err != nil {
		return err
	}
	stored.Name = f.Name
	if f.Type != "" {
		stored.Type = f.Type
	}
	*f = stored
	r.left -= f.Size
	return nil
}

// detach removes the files of a request whose message was not accepted now.
func (a *API) detach(in *protocol.Request) {
	if err := a.service.Detach(in.Context(), in.Files...); err != nil {
		a.log.Warn("cannot remove the attachments of a message that was not accepted: they are removed in an hour", zap.Error(err))
	}
	in.Files = nil
}

// timedReader reads a body until a time.
type timedReader struct {
	from io.Reader
	end  time.Time
	err  error
}

// Read implements [io.Reader].
func (t *timedReader) Read(p []byte) (n int, err error) {
	if time.Now().After(t.end) {
		t.err = os.ErrDeadlineExceeded
		return 0, t.err
	}
	n, err = t.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

// explain returns the read error instead of the error that it caused.
func (t *timedReader) explain(err error) error {
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(t.err, &large):
		return refusal.TooLarge("", "A body with attachments may have at most", large.Limit)
	case t.err != nil:
		return unreadable(t.err)
	case errors.Is(err, context.Canceled), errors.Is(err, io.ErrUnexpectedEOF):
		return unreadable(err)
	}
	return err
}
