package post

import "slices"

// Amendment gives a message another content.
type Amendment struct {
	Changed []Entry // to be saved with their contents: the message, and an edit of it that still waits
	Insert  bool    // the edit is an entry of its own
	Edits   bool    // the room gets an edit; otherwise the message is sent with the content, perhaps only if it is delivered again
}

// Amend gives message t the content of e, which becomes an edit of it. A message that waits is sent with that; else an edit is, in
// place of one that still waits. followUps are all entries that have t as their target, in order.
func Amend(t, e *Entry, followUps []Entry) Amendment {
	e.Kind, e.Target, e.Thread, t.Resolves = KindEdit, t.ID, t.Thread, e.Resolves
	waits := slices.ContainsFunc(followUps, func(f Entry) bool { return f.Kind == KindEdit && f.State.Pending() })
	if t.Replaceable() && !waits || !t.State.Editable() { // an edit would be sent after it, or there is no event to edit
		t.Revise(e.Content, e.QueuedAt)
		return Amendment{Changed: []Entry{*t}}
	}
	attachments := t.Attachments // an edit sends new ones
	t.Content = e.Content
	t.Attachments = attachments
	a := Amendment{Changed: []Entry{*t}, Insert: true, Edits: true}
	for _, f := range slices.Backward(followUps) {
		if f.Kind != KindEdit {
			continue
		}
		if f.Replaceable() {
			f.Resolves = e.Resolves
			f.Revise(e.Content, e.QueuedAt)
			a.Changed, a.Insert = append(a.Changed, f), false
		}
		break
	}
	return a
}

// Annotate gives message t another note, by an edit. That says nothing new to those who read messages elsewhere, so its priority is
// normal.
func Annotate(t *Entry, note string, followUps []Entry, at int64) (e Entry, a Amendment) {
	e = t.EditTo(t.Content, at)
	e.Place, e.AcceptedAt, e.Note, e.Attachments = 0, at, note, ""
	priority, scale := t.Priority, t.GotifyScale
	if !t.Replaceable() {
		e.Priority, e.GotifyScale = min(priority, 0), 0
	}
	a = Amend(t, &e, followUps)
	a.Changed[0].Priority, a.Changed[0].GotifyScale = priority, scale
	return e, a
}
