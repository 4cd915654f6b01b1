package delivery

import (
	"context"

	"slipway/relay/internal/matrix"
)

// fenced is a Sender that fails once the lease is lost. Requests in flight at that moment are harmless: the new holder
// repeats them with the same transaction ID and device, so the homeserver deduplicates.
type fenced struct {
	Sender
	valid func() bool
}

func fence(s Sender, valid func() bool) Sender {
	if valid == nil {
		return s
	}
	return &fenced{s, valid}
}

// errFenced says that nothing was sent.
var errFenced = &matrix.SendError{Class: matrix.ClassAway, Reason: "This relay does not deliver any more."}

// Send implements [Sender].
func (f *fenced) Send(ctx context.Context, out matrix.Outgoing) (string, error) {
	if !f.valid() {
		return "", errFenced
	}
	return f.Sender.Send(ctx, out)
}

// Redact implements [Sender].
func (f *fenced) Redact(ctx context.Context, out matrix.Redaction) (string, error) {
	if !f.valid() {
		return "", errFenced
	}
	return f.Sender.Redact(ctx, out)
}

// Upload implements [Sender].
func (f *fenced) Upload(ctx context.Context, up matrix.Upload) (matrix.Media, error) {
	if !f.valid() {
		return matrix.Media{}, errFenced
	}
	return f.Sender.Upload(ctx, up)
}
