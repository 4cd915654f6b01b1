package delivery

import (
	"encoding/json"

	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/outbox"
)

var errNoTarget = &matrix.SendError{Class: matrix.ClassDead, Reason: "The message isn't in the room."}

// maxRelation is more than a relation takes.
const maxRelation = 1 << 10

// relation is m.relates_to.
type relation struct {
	Type    string `json:"rel_type"`
	EventID string `json:"event_id"`
	Key     string `json:"key,omitempty"`
}

// renderRelated makes the wire bytes of an edit or a reaction.
func (d *Delivery) renderRelated(e *outbox.Entry) (err error) {
	if e.TargetEvent == "" { // or it was sent since the entry was read
		if err := d.store.Settle(d.ctx); err != nil {
			return &matrix.SendError{Class: matrix.ClassRetry, Alone: true, Reason: "The message to change cannot be read.", Err: err}
		}
		target, err := d.store.Message(d.ctx, e.Target)
		if err != nil || target.EventID == "" || target.State != outbox.StateSent {
			return errNoTarget
		}
		e.TargetEvent = target.EventID
	}
	if e.Kind == outbox.Reaction {
		e.Wire, err = json.Marshal(map[string]any{"m.relates_to": relation{"m.annotation", e.TargetEvent, e.Body}})
		return err
	}
	o := d.o.Format
	o.Budget, o.MaxEvents = format.DefaultBudget/2-maxRelation, 1 // the event has its content twice
	events := d.eventsOf(e, o)
	if events == nil {
		return errNotRendered
	}
	edit := map[string]json.RawMessage{}
	if err := json.Unmarshal(events[0].Content, &edit); err != nil {
		return err
	}
	edit["m.new_content"] = events[0].Content
	if edit["m.relates_to"], err = json.Marshal(relation{Type: "m.replace", EventID: e.TargetEvent}); err != nil {
		return err
	}
	e.Wire, err = json.Marshal(edit)
	return err
}
