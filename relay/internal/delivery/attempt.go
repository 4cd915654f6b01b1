package delivery

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/message"
	"slipway/relay/internal/store"
)

const (
	shrunkBudget = format.DefaultBudget / 2
	fileSuffix   = "f" // of the transaction id of a message's file
	leastWait    = time.Second
)

// attempt makes one attempt at an entry and notes what came of it.
func (d *Delivery) attempt(q *queue, e *message.Entry) {
	if e.Deleted {
		d.final(q, e, message.StateCancelled, "The application was deleted.", "")
		return
	}
	if age := time.Since(time.UnixMilli(e.QueuedAt)); age > d.o.MaxAge {
		d.expire(q, e)
		return
	}
	start := time.Now()
	q.began = 0
	q.mu.Lock()
	q.outdated = false
	q.mu.Unlock()
	eventID, err := d.try(q, e)
	d.logAttempt(q, e, time.Since(start), err)
	if err != nil {
		d.failed(q, e, err)
		return
	}
	d.succeeded(q, e, eventID)
}

// try does what the entry asks for. It returns the id of the event that was sent or, for a removal, removed.
func (d *Delivery) try(q *queue, e *message.Entry) (string, error) {
	if err := d.prepare(d.ctx, q); err != nil {
		return "", err
	}
	q.began = time.Now().UnixMilli()
	room := q.Room()
	device := d.sender.Device()
	switch e.Kind {
	case message.Redact:
		return d.redact(q, room, device, e)
	case message.File:
		return d.sendFile(q, room, device, e)
	case message.Part:
		return d.sendPart(q, room, device, e)
	}
	return d.sendEvent(q, room, device, e)
}

// sendEvent sends a message, unless an earlier attempt at it is found to have arrived.
func (d *Delivery) sendEvent(q *queue, room store.Room, device string, e *message.Entry) (string, error) {
	d.dropPlain(room, e)
	doubtful := d.doubtful(e, device) // of the room as it is: one that it replaced is asked first
	if old := q.replacedSince(e.FirstAttemptAt); old != "" {
		if id, err := d.reconcileBefore(old, e); id != "" || err != nil {
			return id, err
		}
	}
	if doubtful {
		if id, err := d.reconcile(room.RoomID, e); id != "" || err != nil {
			return id, err
		}
	}
	if e.Wire == nil {
		if err := d.render(q, e); err != nil {
			return "", err
		}
	}
	return d.send(q, room, device, e, e.Wire)
}

// render makes the wire bytes of an entry. Should a message bring a parser to panic, that message is dead and nothing
// else.
func (d *Delivery) render(q *queue, e *message.Entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &matrix.SendError{Class: matrix.ClassDead, Reason: "The message cannot be rendered.", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	e.EventType, e.Plain = plainType, nil
	if e.Shrunk {
		o := d.o.Format
		o.Budget = shrunkBudget
		if q.Room().Encrypted {
			o.Budget = format.EncryptedBudget / 2
		}
		r := format.Render(d.formatted(e), o)
		e.Wire, e.Cut = r.Content, r.Truncated
		return nil
	}
	events, i := d.events(q, e), part(e)
	if i >= len(events) {
		return &matrix.SendError{Class: matrix.ClassDead, Reason: "the message has fewer parts than before"}
	}
	e.Wire, e.Cut = events[i].Content, events[i].Truncated || i < len(events)-1
	return nil
}

// long is a message of several events, rendered. Each of them is made of the whole message, which takes time.
type long struct {
	of        format.Message
	encrypted bool
	events    []format.Event
}

// events renders a message. The queue keeps those of a long one while it sends.
func (d *Delivery) events(q *queue, e *message.Entry) []format.Event {
	m, encrypted := d.formatted(e), q.Room().Encrypted
	if q.long.events != nil && q.long.of == m && q.long.encrypted == encrypted {
		return q.long.events
	}
	q.long = long{}
	o := d.o.Format
	if encrypted {
		o.Budget = format.EncryptedBudget
	}
	events := format.Events(m, o)
	if len(events) > 1 {
		q.long = long{m, encrypted, events}
	}
	return events
}

// formatted is the message as its events are made of it. Each of them has the marker by which it is found again.
func (d *Delivery) formatted(e *message.Entry) format.Message {
	return format.Message{
		Sender: e.Sender, Title: e.Title, Body: e.Body, ContentType: e.ContentType, Priority: e.Priority,
		Mention: e.Mention, Whom: e.Whom, Marker: cmp.Or(e.TargetTxn, e.Txn),
	}
}

// part is which of its message's events an entry sends.
func part(e *message.Entry) int {
	if e.Kind != message.Part {
		return 0
	}
	return format.PartOf(e.Txn, e.TargetTxn)
}

// rest is what follows an event that does not hold the whole message: the next one, or the full text as a file. The next
// one fits only to the event as it would be rendered now: names and settings may have changed since it was.
func (d *Delivery) rest(q *queue, e *message.Entry) *message.Entry {
	txn, i := cmp.Or(e.TargetTxn, e.Txn), part(e)
	next := &message.Entry{Kind: message.File, After: e.MessageID(), Room: e.Room, Txn: txn + fileSuffix, QueuedAt: e.QueuedAt}
	sent := e.Wire
	if e.EventType == matrix.EventEncrypted {
		sent = e.Plain
	}
	if events := d.events(q, e); i+1 < len(events) && bytes.Equal(sent, events[i].Content) {
		next.Kind, next.Txn = message.Part, format.PartMarker(txn, i+1)
	}
	return next
}

// sendPart sends another event of a message.
func (d *Delivery) sendPart(q *queue, room store.Room, device string, e *message.Entry) (string, error) {
	d.dropPlain(room, e)
	if id, err := d.arrived(q, room, device, e); id != "" || err != nil {
		return id, err
	}
	if e.Wire == nil {
		if err := d.render(q, e); err != nil {
			return "", err
		}
	}
	return d.send(q, room, device, e, e.Wire)
}

const plainType = "m.room.message"

// dropPlain forgets what was rendered for a room that has become encrypted since. What was sent of it before is looked for.
func (d *Delivery) dropPlain(room store.Room, e *message.Entry) {
	if room.Encrypted && e.EventType != matrix.EventEncrypted {
		e.Wire = nil
		if e.FirstAttemptAt != 0 {
			e.Device = ""
		}
	}
}

// send sends an event, encrypted if the room was when its content was made. In a room that is encrypted since, the sender refuses it:
// its file may lie in the clear.
func (d *Delivery) send(q *queue, room store.Room, device string, e *message.Entry, content []byte) (string, error) {
	out := matrix.Outgoing{RoomID: room.RoomID, TxnID: e.Txn, Device: device, EventType: plainType, Content: content, Encrypted: q.Room().Encrypted}
	e.Device = device
	switch {
	case e.EventType == matrix.EventEncrypted && e.Wire != nil:
		out.EventType, out.Content = e.EventType, e.Wire
	case room.Encrypted:
		if err := d.encrypt(q, e, &out); err != nil {
			return "", err
		}
	}
	e.EventType = out.EventType
	return d.sender.Send(d.ctx, out)
}

// encrypt encrypts an event and stores it: every attempt from now on sends the same bytes.
func (d *Delivery) encrypt(q *queue, e *message.Entry, out *matrix.Outgoing) error {
	if d.o.Encrypt == nil {
		return &matrix.SendError{Class: matrix.ClassEncrypted, Reason: "The room is encrypted and this relay cannot encrypt."}
	}
	prepared, err := d.o.Encrypt.Prepare(d.ctx, *out)
	if err != nil {
		q.began = 0 // nothing has left
		return err
	}
	e.Plain, e.Wire, e.EventType = out.Content, prepared.Content, prepared.EventType
	kept, err := d.store.KeepWire(d.ctx, e, q.began)
	if err != nil {
		q.began = 0
		return &matrix.SendError{Class: matrix.ClassRetry, Alone: true, Reason: "The encrypted event cannot be stored.", Err: err}
	}
	if !kept { // it was withdrawn meanwhile
		q.began = 0
		return &matrix.SendError{Class: matrix.ClassReconcile, Reason: "The message was withdrawn."}
	}
	*out = prepared
	return nil
}

// sendFile sends the full text of a message that was cut.
func (d *Delivery) sendFile(q *queue, room store.Room, device string, e *message.Entry) (string, error) {
	d.dropPlain(room, e)
	if id, err := d.arrived(q, room, device, e); id != "" || err != nil {
		return id, err
	}
	if e.EventType == matrix.EventEncrypted && e.Wire != nil {
		return d.send(q, room, device, e, nil)
	}
	f := fileOf(e)
	text := format.FullText(format.Message{Title: e.Title, Body: e.Body})
	f.Size = len(text)
	name, mime := f.Name, f.MimeType
	if room.Encrypted {
		text, f.Keys = matrix.EncryptFile(text)
		name, mime = "", "application/octet-stream"
	} else if err := d.sender.MaySend(d.ctx, matrix.Outgoing{RoomID: room.RoomID, Device: device, EventType: plainType}); err != nil {
		return "", err // the room may be encrypted, and the file must not be in the clear then
	}
	var err error
	if f.URI, err = d.sender.Upload(d.ctx, name, mime, text); err != nil {
		return "", err
	}
	return d.send(q, room, device, e, format.FileContent(f))
}

func fileOf(e *message.Entry) format.File {
	f := format.File{Name: "message.md", MimeType: "text/markdown", Marker: e.Txn}
	switch e.ContentType {
	case format.Plain:
		f.Name, f.MimeType = "message.txt", "text/plain"
	case format.HTML:
		f.Name, f.MimeType = "message.html", "text/html"
	}
	return f
}

// redact removes an event. One of which only the transaction is known is looked for first.
func (d *Delivery) redact(q *queue, room store.Room, device string, e *message.Entry) (string, error) {
	id := e.EventID
	if id == "" {
		if q.replacedSince(e.TargetAt) != "" {
			return "", errUnproven // nothing can be removed from a room that was replaced
		}
		found, err := d.findAny(q, room.RoomID, e)
		if found == "" || err != nil {
			return "", err
		}
		id = found
	}
	_, err := d.sender.Redact(d.ctx, matrix.Redaction{RoomID: room.RoomID, EventID: id, TxnID: e.Txn, Device: device})
	return id, err
}

// findAny looks for an event that is left of a removal's message: it, one of its parts, or its file.
func (d *Delivery) findAny(q *queue, roomID string, e *message.Entry) (id string, err error) {
	for _, marker := range d.markers(q, e) {
		if id, err = d.find(roomID, marker, e.AcceptedAt); id != "" || err != nil {
			break
		}
	}
	return id, err
}

// markers are those of all events that a removal's message may have.
func (d *Delivery) markers(q *queue, e *message.Entry) (all []string) {
	all = []string{e.TargetTxn}
	defer func() { _ = recover() }() // a message that cannot be rendered has no others
	events := d.events(q, e)
	if len(events) == 1 && !events[0].Truncated {
		return all
	}
	for i := 1; i < len(events); i++ {
		all = append(all, format.PartMarker(e.TargetTxn, i))
	}
	return append(all, e.TargetTxn+fileSuffix)
}

// logAttempt writes the one line that each attempt gets.
func (d *Delivery) logAttempt(q *queue, e *message.Entry, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = string(classOf(err).Class)
	}
	d.metrics.attempts.WithLabelValues(result).Inc()
	text := "delivery"
	if e.Kind == message.Redact {
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

// classOf finds the classified error in err; what is not classified counts as one failed request.
func classOf(err error) *matrix.SendError {
	var e *matrix.SendError
	if errors.As(err, &e) {
		return e
	}
	return &matrix.SendError{Class: matrix.ClassRetry, Reason: "The attempt failed.", Err: err}
}
