package web

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/service"
)

// event is an edit of a message, or a reply to it.
type event struct {
	What  string
	At    time.Time
	State post.State
	Title string
	Note  string
	Text  string // the beginning of it, as readers see it
}

// history returns the latest edits of a message and replies to it, in order.
func (web *Web) history(v *sessionRequest, id int64) (events []event, err error) {
	all, _, err := web.service.History(v.ctx(), v.Principal, id, 0, service.MaxPage)
	for _, e := range slices.Backward(all) {
		what := "Edited"
		if e.Kind == post.KindReply {
			what = "Replied"
		}
		events = append(events, event{what, post.Time(e.QueuedAt), e.State, e.Title, e.Note, preview(100, e.Content)})
	}
	return events, err
}

func (web *Web) postAcknowledge(w http.ResponseWriter, v *sessionRequest) error {
	if _, err := web.service.Acknowledge(v.ctx(), v.Principal, idOf(v)); err != nil {
		return web.showMessage(w, v, err)
	}
	return back(w, v, "/ui/messages/"+strconv.FormatInt(idOf(v), 10), "acknowledged")
}
