package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// storedTimes is how many times the attachments of the largest message are stored at most.
const storedTimes = 50

// MaxAttachments is the largest number of attachments of a message.
const MaxAttachments = 20

// ErrTooManyAttachments refuses a message with more than MaxAttachments.
var ErrTooManyAttachments = refusal.Invalid("attachments", fmt.Sprintf("A message has at most %d attachments.", MaxAttachments))

// Attach stores an attachment for a message of an application that isn't accepted yet. content may have at most left bytes.
// The attachment is removed after an hour unless a message is accepted with it; [Intake.Detach] removes it at once.
func (s *Intake) Attach(ctx context.Context, application int64, content io.Reader, left int64) (a post.Attachment, err error) {
	if s.limits().MaxAttachments <= 0 {
		return a, refusal.TooLarge("attachments", "This relay takes no attachments: limits.attachments is", 0)
	}
	if err := s.hasRoom(ctx, application); err != nil {
		return a, err
	}
	limit := left
	if h := s.maxUpload(); h > 0 {
		limit = min(limit, h)
	}
	now, sum := time.Now().UnixMilli(), sha256.New()
	chunk := make([]byte, store.ChunkSize)
	for n := 0; ; n++ {
		size, err := fill(chunk, content)
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return a, errors.Join(err, s.Detach(ctx, a))
		}
		part := chunk[:size]
		if n == 0 {
			a.Type, a.Width, a.Height = detectMedia(part)
		}
		if a.Size += int64(size); a.Size > limit {
			return a, errors.Join(s.tooLarge(limit < left), s.Detach(ctx, a))
		}
		if size > 0 || n == 0 {
			_, _ = sum.Write(part)
			if a.ID, err = s.store.AddChunk(ctx, a.ID, n, part, now); err != nil {
				return a, notStored(ctx, err)
			}
		}
		if last {
			a.Sum = sum.Sum(nil)
			return a, nil
		}
	}
}

// hasRoom refuses attachments when those of all messages, or of the application's or its owner's, take too much.
func (s *Intake) hasRoom(ctx context.Context, application int64) error {
	of := func(id int64) (int64, error) { return s.store.AttachmentBytesOf(ctx, id) }
	text, all := "", storedTimes*s.limits().MaxAttachments
	switch stored, err := s.store.AttachmentBytes(ctx); {
	case err != nil: // storing the attachment will tell
	case stored >= all:
		text = "Too many attachments wait for delivery."
	case exceeds(stored, all, func() (int64, error) { return of(application) }):
		text = "Too many attachments of this application wait for delivery."
	case s.ownerExceeds(ctx, stored, all, application, of):
		text = "Too many attachments of the applications of this owner wait for delivery."
	}
	if text == "" {
		return nil
	}
	return &refusal.Error{Kind: refusal.KindUnavailable, Message: text, RetryAfter: time.Minute}
}

// fill reads until chunk is full. For a partial last chunk it returns io.EOF, unlike [io.ReadFull], so that a truncated
// body stays distinguishable.
func fill(chunk []byte, from io.Reader) (n int, err error) {
	for n < len(chunk) && err == nil {
		var more int
		more, err = from.Read(chunk[n:])
		n += more
	}
	return n, err
}

func (s *Intake) tooLarge(homeserver bool) error {
	if homeserver {
		return refusal.TooLarge("attachments", "The homeserver takes files of at most", s.maxUpload())
	}
	return refusal.TooLarge("attachments", "The attachments of a message may have together at most", s.limits().MaxAttachments)
}

// MaxMessage returns the largest size of a message's text, in bytes.
func (s *Intake) MaxMessage() int { return s.limits().MaxMessage }

// MaxAttachments returns how many bytes the attachments of a message may have together.
func (s *Intake) MaxAttachments() int64 { return s.limits().MaxAttachments }

// Detach removes attachments that no message was accepted with.
func (s *Intake) Detach(ctx context.Context, all ...post.Attachment) error {
	var ids []int64
	for _, a := range all {
		if a.ID != 0 {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachWithin)
	defer cancel()
	return s.store.DropAttachments(ctx, ids)
}

const detachWithin = 10 * time.Second

// attached checks the attachments of a request and completes their names and types. Empty ones are left out, because homeservers
// refuse them.
func (s *Intake) attached(all []post.Attachment) (string, error) {
	if len(all) > MaxAttachments {
		return "", ErrTooManyAttachments
	}
	var out []post.Attachment
	for _, a := range all {
		if a.Size == 0 {
			continue
		}
		a.Name = fileName(a.Name, a.Type)
		a.Type = mediaTypeOf(a.Type, a.Name)
		out = append(out, a)
	}
	return post.EncodeAttachments(out), nil
}
