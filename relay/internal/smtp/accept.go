package smtp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/emersion/go-smtp"
	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/service"
)

// source is the source of the messages.
const source = "smtp"

// accept stores a mail as a message.
func (s *session) accept(ctx context.Context, r io.Reader) (err error) {
	var files []post.Attachment
	kept := false
	defer func() {
		if kept {
			return
		}
		if err := s.s.o.Service.Detach(ctx, files...); err != nil {
			s.s.log.Warn("cannot remove the attachments of a mail that was not accepted: they are removed in an hour", zap.Error(err))
		}
	}()
	left, longest := s.s.o.Service.MaxAttachments(), s.s.o.Service.MaxMessage()
	m, err := readMail(r, longest, func(name, mediaType string, content io.Reader) error {
		f, err := s.s.o.Service.Attach(ctx, s.app.ID, content, left)
		if err != nil {
			return err
		}
		left -= f.Size
		f.Name = name
		if mediaType != "application/octet-stream" {
			f.Type = mediaType
		}
		files = append(files, f)
		if len(files) > service.MaxAttachments {
			return service.ErrTooManyAttachments
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrTooLong):
		return refusal.TooLarge("message", "A message may have at most", int64(longest))
	case errors.Is(err, ErrMalformed), errors.Is(err, smtp.ErrTooLongLine):
		return refusal.Invalid("", "The mail is malformed.")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &refusal.Error{Kind: refusal.KindTimeout, Message: "The mail did not arrive completely.", Err: err}
	case err != nil:
		return err
	}
	d := draft(m, s.token, files)
	d.Title = s.s.o.Service.ShortTitle(d.Title)
	accepted, err := s.s.o.Service.Accept(ctx, d)
	if err != nil {
		return err
	}
	kept = !accepted.Replay
	return nil
}

// draft makes a message of a mail. The same mail again is the same message.
func draft(m Mail, token string, files []post.Attachment) post.Draft {
	d := post.Draft{Token: token, Source: source, Content: post.Content{Title: m.Subject, Body: m.Text, ContentType: format.Plain}, Files: files}
	if m.HTML {
		d.ContentType = format.HTML
	}
	if m.Priority != 0 {
		d.Priority = &m.Priority
	}
	if strings.TrimSpace(d.Body) == "" {
		d.ContentType = format.Plain
		switch {
		case d.Title != "":
			d.Title, d.Body = "", d.Title
		case len(files) > 0:
			d.Body = "An email from " + m.From
		default:
			d.Body = "An empty email from " + m.From
		}
	}
	if m.ID != "" {
		d.IdempotencyKey = key(m, files)
	}
	return d
}

// key returns the idempotency key of an email: some programs give different emails the same Message-ID, and yagmail all those with one
// subject. An email that is sent again has its date.
func key(m Mail, files []post.Attachment) string {
	h := sha256.New()
	for _, part := range []string{m.ID, m.Date, m.Subject, m.Text} {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	for _, f := range files {
		fmt.Fprintf(h, "%q %x", f.Name, f.Sum)
	}
	return "mail:" + hex.EncodeToString(h.Sum(nil))
}
