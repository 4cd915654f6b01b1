package delivery

import (
	"bytes"
	"cmp"
	"encoding/json"

	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
)

var errNoTarget = &matrix.SendError{Class: matrix.ClassDead, Reason: "The message isn't in the room."}

// maxRelation is more than a relation takes.
const maxRelation = 1 << 10

// relation is m.relates_to.
type relation struct {
	Type        string   `json:"rel_type"`
	EventID     string   `json:"event_id"`
	Key         string   `json:"key,omitempty"`
	FallingBack bool     `json:"is_falling_back,omitempty"`
	InReplyTo   *eventID `json:"m.in_reply_to,omitempty"`
}

type eventID struct {
	EventID string `json:"event_id"`
}

// inThread relates an event to the first one of a thread. Clients without threads show it as a reply to another event, which may be the same.
func inThread(root, to string) relation {
	return relation{Type: "m.thread", EventID: root, FallingBack: true, InReplyTo: &eventID{to}}
}

// renderRelated makes the wire bytes of an edit, a reply or a reaction.
func (d *Delivery) renderRelated(q *queue, e *post.Entry) (err error) {
	if err := d.findTarget(e); err != nil {
		return err
	}
	switch e.Kind {
	case post.KindReaction:
		e.Wire, err = related([]byte("{"+format.MarkerField(e.Txn)+"}"), relation{Type: "m.annotation", EventID: e.TargetEvent, Key: e.Body})
	case post.KindEdit:
		e.Wire, err = d.renderEdit(e)
	case post.KindReply:
		e.Wire, err = d.renderReply(q, e)
	}
	return err
}

// findTarget finds the event of an entry's target if it wasn't known when the entry was read.
func (d *Delivery) findTarget(e *post.Entry) error {
	if e.TargetEvent != "" {
		return nil
	}
	if err := d.store.Settle(d.ctx); err != nil {
		return &matrix.SendError{Class: matrix.ClassRetry, Alone: true, Reason: "The message to change cannot be read.", Err: err}
	}
	target, err := d.store.Message(d.ctx, e.Target)
	if err != nil || target.EventID == "" || target.State != post.StateSent {
		return errNoTarget
	}
	e.TargetEvent = target.EventID
	return nil
}

// renderEdit makes an event that replaces another one. It mentions nobody.
func (d *Delivery) renderEdit(e *post.Entry) ([]byte, error) {
	o := d.o.Format
	o.Budget, o.NoFile = format.DefaultBudget/2-maxRelation, true // the event has its content twice
	event, err := d.event(e, o)
	if err != nil {
		return nil, err
	}
	edit := map[string]any{}
	if err := json.Unmarshal(event.Content, &edit); err != nil {
		return nil, err
	}
	for _, name := range []string{"body", "formatted_body"} { // for clients that know no edits
		if text, ok := edit[name].(string); ok {
			edit[name] = "* " + text
		}
	}
	edit["m.mentions"] = struct{}{}
	edit["m.new_content"] = json.RawMessage(event.Content)
	edit["m.relates_to"] = relation{Type: "m.replace", EventID: e.TargetEvent}
	return unescaped(edit)
}

// unescaped encodes JSON without the escapes for HTML, which would make an event several times as large.
func unescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// renderReply makes a message in the thread of another one.
func (d *Delivery) renderReply(q *queue, e *post.Entry) ([]byte, error) {
	root, err := d.threadRoot(q, e)
	if err != nil {
		return nil, err
	}
	o := d.o.Format
	o.Budget = spare(o)
	event, err := d.event(e, o)
	if err != nil {
		return nil, err
	}
	e.Cut = event.Truncated
	if e.TargetRoom != 0 && e.TargetRoom != e.Room {
		return event.Content, nil // a copy for the people of another room
	}
	return related(event.Content, inThread(cmp.Or(root, e.TargetEvent), e.TargetEvent))
}

// spare returns the budget of a content that gets a relation.
func spare(o format.Options) int {
	return max(cmp.Or(o.Budget, format.DefaultBudget)-maxRelation, format.MinBudget)
}

// threadRoot returns the first event of an entry's thread; "" if there is none before the entry's message. Of a room that was
// replaced no event is one.
func (d *Delivery) threadRoot(q *queue, e *post.Entry) (root string, err error) {
	if e.Thread == "" {
		return "", nil
	}
	find := func() {
		root, err = d.store.ThreadRoot(d.ctx, e.ApplicationID, e.Thread, e.Room, e.MessageID(), q.Room().ReplacedAt)
	}
	if find(); root == "" && err == nil {
		if err = d.store.Settle(d.ctx); err == nil { // it may just have been sent
			find()
		}
	}
	if err != nil {
		return "", &matrix.SendError{Class: matrix.ClassRetry, Alone: true, Reason: "The thread cannot be read.", Err: err}
	}
	return root, nil
}

// related adds a relation to the content of an event.
func related(content []byte, r relation) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(append(append(content[:len(content)-1:len(content)-1], `,"m.relates_to":`...), text...), '}'), nil
}
