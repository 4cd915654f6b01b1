package delivery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
	"slipway/shared/tracing"
)

const leastWait = time.Second

// attempt makes one attempt at an entry and applies its result.
func (d *Delivery) attempt(q *queue, e *post.Entry) {
	if e.Deleted {
		d.step(q, e, post.Orphaned{})
		return
	}
	if e.Barred && e.Kind != post.KindRedaction {
		d.step(q, e, post.Barred{})
		return
	}
	if age := time.Since(time.UnixMilli(e.QueuedAt)); age > d.o.MaxAge {
		d.expire(q, e)
		return
	}
	defer q.setFlight(flight{}) // once its result is recorded
	start := time.Now()
	q.began = 0
	q.mu.Lock()
	q.outdated = false
	q.mu.Unlock()
	ctx, span := tracing.Span(tracing.Continue(d.ctx, e.Trace), "deliver")
	eventID, err := d.try(ctx, q, e)
	traceAttempt(span, q, e, err)
	d.logAttempt(q, e, time.Since(start), err)
	if err != nil {
		d.failed(q, e, err)
		return
	}
	d.succeeded(q, e, eventID)
}

// try does what the entry asks for. It returns the id of the event that was sent or, for a removal, removed.
func (d *Delivery) try(ctx context.Context, q *queue, e *post.Entry) (string, error) {
	room := q.Room()
	if room.RoomID == "" {
		if err := d.prepare(ctx, q); err != nil {
			return "", err
		}
		room = q.Room()
	}
	q.began = time.Now().UnixMilli()
	device := d.sender.Device()
	q.setFlight(flight{e.ID, q.began, device})
	if e.Kind == post.KindRedaction {
		return d.redact(ctx, q, room, device, e)
	}
	d.dropPlain(room, e)
	if e.FirstAttemptAt != 0 {
		if id, err := d.arrived(ctx, q, room, device, e); id != "" || err != nil {
			return id, err
		}
	}
	if e.Kind == post.KindFile || e.Kind == post.KindMedia {
		return d.sendFile(ctx, q, room, device, e)
	}
	if e.Wire == nil {
		if err := d.render(q, e); err != nil {
			return "", err
		}
	}
	return d.send(ctx, q, room, device, e, e.Wire)
}

var errNotRendered = &matrix.SendError{Class: matrix.ClassDead, Reason: "The message cannot be rendered."}

// render makes the wire bytes of an entry.
func (d *Delivery) render(q *queue, e *post.Entry) error {
	e.EventType, e.Plain = typeOf(e), nil
	switch e.Kind {
	case post.KindEdit, post.KindReaction, post.KindReply:
		return d.renderRelated(q, e)
	}
	root, err := d.threadRoot(q, e)
	if err != nil {
		return err
	}
	o := d.o.Format
	if root != "" {
		o.Budget = spare(o)
	}
	event, err := d.event(e, o)
	if err == nil && root != "" {
		event.Content, err = related(event.Content, inThread(root, root))
	}
	if err != nil {
		return err
	}
	e.Wire, e.Cut, e.Root = event.Content, event.Truncated, root
	return nil
}

// event renders a message. It fails if that brings a parser to panic.
func (d *Delivery) event(e *post.Entry, o format.Options) (event format.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("cannot render a message", zap.Int64("message", e.MessageID()), zap.Any("panic", p))
			err = errNotRendered
		}
	}()
	m := formatted(e)
	if e.Shrunk != post.SizeWhole {
		o.Budget = format.MinBudget
	}
	if e.Shrunk == post.SizeNotice {
		m.Sender, m.Title, m.Body, m.ContentType = "", "", tooLarge, format.Plain
	}
	event = renderEvent(m, o)
	event.Truncated = event.Truncated || e.Shrunk == post.SizeNotice
	return event, nil
}

// tooLarge stands for a message that the homeserver takes only as a file.
const tooLarge = "The homeserver refuses this message as too large: its text is in the file."

var renderEvent = format.Render // tests replace it

// formatted returns the message to render. Its events carry the entry's Txn as the marker by which find recognizes them.
func formatted(e *post.Entry) format.Message {
	title := e.Title
	if e.Resolves && title != "" {
		title = "✅ " + title
	}
	return format.Message{
		Sender: e.Sender, Title: title, Note: e.Note, Body: e.Body, ContentType: e.ContentType, Priority: e.Priority,
		Mention: e.Mention, Mentions: cmp.Or(e.Mentions, e.Choice), Marker: e.Txn,
	}
}

// typeOf returns the type of an entry's event where it isn't encrypted.
func typeOf(e *post.Entry) string {
	if e.Kind == post.KindReaction {
		return matrix.EventReaction
	}
	return "m.room.message"
}

// dropPlain discards plaintext rendered before the room became encrypted, and makes the next attempt search for earlier
// events.
func (d *Delivery) dropPlain(room store.Room, e *post.Entry) {
	if room.Encrypted && e.EventType != matrix.EventEncrypted && e.Kind != post.KindReaction {
		e.Wire = nil
		if e.FirstAttemptAt != 0 {
			e.Device = ""
		}
	}
}

// send sends an event, encrypted if the room was when its content was made. In a room that is encrypted since, the sender refuses it:
// its file may lie in the clear.
func (d *Delivery) send(ctx context.Context, q *queue, room store.Room, device string, e *post.Entry, content []byte) (string, error) {
	out := matrix.Outgoing{RoomID: room.RoomID, TxnID: e.Txn, Device: device, EventType: typeOf(e), Content: content, Encrypted: q.Room().Encrypted}
	e.Device = device
	switch {
	case e.EventType == matrix.EventEncrypted && e.Wire != nil:
		out.EventType, out.Content = e.EventType, e.Wire
	case room.Encrypted && e.Kind != post.KindReaction: // which all clients send in the clear
		if err := d.encrypt(ctx, q, e, &out); err != nil {
			return "", err
		}
	}
	e.EventType = out.EventType
	if err := d.fence(); err != nil {
		return "", err
	}
	return d.sender.Send(ctx, out)
}

// encrypt encrypts an event and stores it: every attempt from now on sends the same bytes.
func (d *Delivery) encrypt(ctx context.Context, q *queue, e *post.Entry, out *matrix.Outgoing) error {
	if d.o.Encrypt == nil {
		return &matrix.SendError{Class: matrix.ClassEncrypted, Reason: "The room is encrypted and this relay cannot encrypt."}
	}
	prepared, err := d.o.Encrypt.Prepare(ctx, *out)
	if err != nil {
		q.began = 0 // nothing has left
		return err
	}
	e.Plain, e.Wire, e.EventType = out.Content, prepared.Content, prepared.EventType
	kept, err := d.store.KeepWire(ctx, e, q.began)
	if err != nil {
		q.began = 0
		return &matrix.SendError{Class: matrix.ClassRetry, Alone: true, Reason: "The encrypted event cannot be stored.", Err: err}
	}
	if !kept { // it was withdrawn or revised in the meantime
		q.began = 0
		return &matrix.SendError{Class: matrix.ClassReconcile, Reason: "The message was changed while it was being sent."}
	}
	*out = prepared
	return nil
}

// sendFile sends the full text of a message that was cut, or an attachment.
func (d *Delivery) sendFile(ctx context.Context, q *queue, room store.Room, device string, e *post.Entry) (string, error) {
	if e.EventType == matrix.EventEncrypted && e.Wire != nil {
		return d.send(ctx, q, room, device, e, nil)
	}
	f, content, err := d.fileOf(e)
	if err != nil {
		return "", err
	}
	if err := d.fence(); err != nil {
		return "", err
	}
	media, err := d.sender.Upload(ctx, matrix.Upload{
		RoomID: room.RoomID, Device: device, Name: f.Name, MimeType: f.MimeType, Content: content, Size: f.Size, Encrypt: room.Encrypted,
	})
	if err != nil {
		return "", err
	}
	f.URI, f.Keys = media.URI, media.Keys
	wire := format.FileContent(f)
	root, err := d.threadRoot(q, e)
	if root == "" && e.Kind == post.KindFile && e.Place != e.Target && e.Room == e.TargetRoom { // of a reply
		root = e.TargetEvent
	}
	if err == nil && root != "" {
		wire, err = related(wire, inThread(root, root))
	}
	if err != nil {
		return "", err
	}
	return d.send(ctx, q, room, device, e, wire)
}

// fileOf returns the file that an entry sends, with its content.
func (d *Delivery) fileOf(e *post.Entry) (f format.File, content io.Reader, err error) {
	if e.Kind == post.KindMedia {
		return d.attachment(e)
	}
	f = textFile(e)
	text := format.FullText(format.Message{Title: e.Title, Body: e.Body})
	f.Size = int64(len(text))
	return f, bytes.NewReader(text), nil
}

// attachment returns an attachment. Its content is there until the entry is final.
func (d *Delivery) attachment(e *post.Entry) (f format.File, content io.Reader, err error) {
	all := post.DecodeAttachments(e.Attachments)
	if len(all) == 0 {
		return f, nil, errNotRendered
	}
	a := all[0]
	content, err = d.store.Attachment(d.ctx, a.ID)
	switch {
	case store.IsMissing(err):
		return f, nil, &matrix.SendError{Class: matrix.ClassDead, Reason: "its content is gone"}
	case err != nil:
		return f, nil, &matrix.SendError{Class: matrix.ClassRetry, Alone: true, Reason: "The attachment cannot be read.", Err: err}
	}
	return format.File{Name: a.Name, MimeType: a.Type, Size: a.Size, Width: a.Width, Height: a.Height, Marker: e.Txn}, content, nil
}

func textFile(e *post.Entry) format.File {
	f := format.File{Name: "message.md", MimeType: "text/markdown", Marker: e.Txn}
	switch e.ContentType {
	case format.Plain:
		f.Name, f.MimeType = "message.txt", "text/plain"
	case format.HTML:
		f.Name, f.MimeType = "message.html", "text/html"
	}
	return f
}

// redact removes an event, which it searches for if only its transaction ID is known.
func (d *Delivery) redact(ctx context.Context, q *queue, room store.Room, device string, e *post.Entry) (string, error) {
	id := e.EventID
	if id == "" {
		if q.replacedSince(e.TargetAt) != "" {
			return "", errUnproven // nothing can be removed from a room that was replaced
		}
		found, err := d.find(ctx, room.RoomID, e.Marker, e.AcceptedAt)
		if found == "" || err != nil {
			return "", err
		}
		id = found
	}
	if err := d.fence(); err != nil {
		return "", err
	}
	_, err := d.sender.Redact(ctx, matrix.Redaction{RoomID: room.RoomID, EventID: id, TxnID: e.Txn, Device: device})
	return id, err
}

// logAttempt writes the one line that each attempt gets.
func (d *Delivery) logAttempt(q *queue, e *post.Entry, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = string(classOf(err).Class)
	}
	d.metrics.attempts.WithLabelValues(result).Inc()
	text := "delivery"
	if e.Kind == post.KindRedaction {
		text = "removal"
	}
	c := d.log.Check(zap.InfoLevel, text)
	if c == nil {
		return
	}
	if result == string(matrix.ClassEncrypted) || result == string(matrix.ClassBlock) { // "encrypted" reads as success
		result = "blocked"
	}
	fields := []zap.Field{
		zap.Int64("message", e.MessageID()), zap.Int64("application", e.ApplicationID), zap.String("room", q.Room().RoomID),
		zap.String("result", result), zap.Int("attempt", e.Attempts+1), zap.Duration("took", took),
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	c.Write(fields...)
}

// traceAttempt ends the span of an attempt.
func traceAttempt(s trace.Span, q *queue, e *post.Entry, err error) {
	if s.IsRecording() {
		s.SetAttributes(attribute.Int64("message.id", e.MessageID()), attribute.String("room.id", q.Room().RoomID), attribute.Int("attempt", e.Attempts+1))
	}
	tracing.End(s, err)
}

// classOf finds the classified error in err; what is not classified counts as one failed request.
func classOf(err error) *matrix.SendError {
	var e *matrix.SendError
	if errors.As(err, &e) {
		return e
	}
	return &matrix.SendError{Class: matrix.ClassRetry, Reason: "The attempt failed.", Err: err}
}
