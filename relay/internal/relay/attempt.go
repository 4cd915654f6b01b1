package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/store"
)

const (
	shrunkBudget = format.DefaultBudget / 2
	fileSuffix   = "f" // of the transaction id of a message's file
	leastWait    = time.Second
)

// Steps of sending a message.
const (
	stepEvent = 0
	stepFile  = 1 // the event was cut and is sent: its full text follows
	stepCut   = 2 // the event is cut and not sent yet
)

// attempt makes one attempt at an entry and notes what came of it.
func (d *dispatcher) attempt(q *queue, e *store.Entry) {
	owner, ok := d.accounts.Owner(e.ApplicationID)
	if !ok {
		d.rest(q, e, store.Cancelled, "The application was deleted.", "")
		return
	}
	if age := time.Since(time.UnixMilli(e.QueuedAt)); age > d.maxAge {
		d.expire(q, e)
		return
	}
	began := time.Now()
	q.began = 0
	eventID, err := d.try(q, e, owner)
	d.logAttempt(q, e, time.Since(began), err)
	if err != nil {
		d.failed(q, e, owner, err)
		return
	}
	d.succeeded(q, e, eventID)
}

// try does what the entry asks for.
func (d *dispatcher) try(q *queue, e *store.Entry, owner string) (string, error) {
	if err := d.prepare(d.ctx, q); err != nil {
		return "", err
	}
	q.began = time.Now().UnixMilli()
	room := q.Room()
	device := d.sender.Device()
	switch {
	case e.Op == store.OpRedact:
		return d.sender.Redact(d.ctx, Redaction{RoomID: room.RoomID, EventID: e.EventID, TxnID: e.Txn, Device: device})
	case e.Step == stepFile:
		return d.sendFile(q, room, device, e)
	}
	return d.sendEvent(q, room, device, e, owner)
}

// sendEvent sends a message, unless an earlier attempt at it is found to have arrived.
func (d *dispatcher) sendEvent(q *queue, room store.Room, device string, e *store.Entry, owner string) (string, error) {
	doubtful := d.doubtful(e, device) // of the room as it is: one that it replaced is asked first
	if old := q.replacedSince(e); old != "" {
		if id, err := d.settleBefore(old, e); id != "" || err != nil {
			return id, err
		}
	}
	if e.Wire == nil {
		if err := d.render(e, owner); err != nil {
			return "", err
		}
	}
	if doubtful {
		if id, err := d.settle(room, e); id != "" || err != nil {
			return id, err
		}
	}
	e.Device = device
	return d.send(room, e, e.Txn, e.Wire)
}

// render makes the wire bytes of an entry. Should a message bring a parser to panic, that message is dead and nothing
// else.
func (d *dispatcher) render(e *store.Entry, owner string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &SendError{Class: ClassDead, Reason: "The message cannot be rendered.", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	o := d.format
	if e.Shrunk {
		o.Budget = shrunkBudget
	}
	r := format.Render(format.Message{
		Sender: d.accounts.SenderShown(e.ApplicationID), Title: e.Title, Body: e.Body, ContentType: e.ContentType, Priority: e.Priority,
		Mention: owner, Marker: e.Txn,
	}, o)
	e.EventType, e.Wire, e.Step = "m.room.message", r.Content, stepEvent
	if r.Truncated {
		e.Step = stepCut
	}
	return nil
}

func (d *dispatcher) send(room store.Room, e *store.Entry, txn string, wire []byte) (string, error) {
	return d.sender.Send(d.ctx, Outgoing{
		RoomID: room.RoomID, TxnID: txn, Device: e.Device, EventType: e.EventType, Content: wire, Encrypted: room.Encrypted,
	})
}

// sendFile sends the full text of a message whose event had to be cut.
func (d *dispatcher) sendFile(q *queue, room store.Room, device string, e *store.Entry) (string, error) {
	if room.Encrypted {
		return "", &SendError{Class: ClassEncrypted}
	}
	if there, err := d.fileThere(q, room, device, e); there || err != nil {
		return e.EventID, err
	}
	f := fileOf(e)
	text := format.FullText(format.Message{Title: e.Title, Body: e.Body})
	f.Size = len(text)
	var err error
	if f.URI, err = d.sender.Upload(d.ctx, f.Name, f.MimeType, text); err != nil {
		return "", err
	}
	e.Device, e.EventType = device, "m.room.message"
	_, err = d.send(room, e, e.Txn+fileSuffix, format.FileContent(f))
	return e.EventID, err
}

func fileOf(e *store.Entry) format.File {
	f := format.File{Name: "message.md", MimeType: "text/markdown", Marker: e.Txn + fileSuffix}
	switch e.ContentType {
	case format.Plain:
		f.Name, f.MimeType = "message.txt", "text/plain"
	case format.HTML:
		f.Name, f.MimeType = "message.html", "text/html"
	}
	return f
}

// prepare makes sure that the room's id is known: it makes the room or looks up its alias.
func (d *dispatcher) prepare(ctx context.Context, q *queue) error {
	q.mu.Lock()
	known := q.room.RoomID != ""
	q.mu.Unlock()
	if known {
		return nil
	}
	q.making.Lock()
	defer q.making.Unlock()
	r := q.Room()
	if r.RoomID != "" {
		return nil
	}
	var err error
	if r.ToMake() {
		r.RoomID, err = d.makeRoom(ctx, q)
		r.Address = r.RoomID
	} else {
		r.RoomID, err = d.rooms.Resolve(ctx, r.Address)
	}
	if err != nil {
		d.noRoom(q, classOf(err))
		return err
	}
	q.setRoom(func(room *store.Room) { room.Address, room.RoomID = r.Address, r.RoomID })
	if q.Room().Parked != "" {
		d.unpark(q)
		q.retry()
		return nil
	}
	d.saveRoom(q)
	return nil
}

// noRoom notes why a room is not to be had, so that it can be read before a message
// waits for it. What is about all rooms is told elsewhere.
func (d *dispatcher) noRoom(q *queue, f *SendError) {
	if !f.Alone && f.Class != ClassPark && f.Class != ClassDead {
		return
	}
	d.parkRoom(q, f.Class, f.Sentence())
}

// logAttempt writes the one line that each attempt gets.
func (d *dispatcher) logAttempt(q *queue, e *store.Entry, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = string(classOf(err).Class)
	}
	d.metrics.attempts.WithLabelValues(result).Inc()
	c := d.log.Check(zap.InfoLevel, "delivery")
	if c == nil {
		return
	}
	fields := []zap.Field{
		zap.Int64("message", e.MessageID), zap.Int64("application", e.ApplicationID), zap.String("room", q.Room().RoomID),
		zap.String("result", result), zap.Int("attempt", e.Attempts+1), zap.Duration("took", took),
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	c.Write(fields...)
}

// classOf finds the classified error in err; what is not classified counts as one failed request.
func classOf(err error) *SendError {
	var e *SendError
	if errors.As(err, &e) {
		return e
	}
	return &SendError{Class: ClassRetry, Reason: "The attempt failed.", Err: err}
}
