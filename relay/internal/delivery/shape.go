package delivery

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

// shortBody is a message's length up to which it surely is one event: what escapes and markup add is less than eightfold, unless it
// defines links, which may be used many times.
const shortBody = 5 << 10

// Shape returns the number of events that a message is sent as, as names and settings are now, and whether its full text follows as a
// file. A message that cannot be rendered has none.
func Shape(ctx context.Context, s *store.Store, o format.Options, log *zap.Logger, m post.View) (events int, file bool, err error) {
	if len(m.Body) <= shortBody && !strings.Contains(m.Body, "]:") {
		return 1, false, nil
	}
	e, err := s.Entry(ctx, m.ID)
	if err != nil {
		return 0, false, err
	}
	if e.Thread != "" {
		root, err := s.ThreadRoot(ctx, e.ApplicationID, e.Thread, e.Room, e.ID, 0)
		if err != nil {
			return 0, false, err
		}
		if root != "" {
			o.Budget = spare(o)
		}
	}
	all := eventsOf(e, o, log)
	if all == nil {
		return 0, false, nil
	}
	return len(all), all[len(all)-1].Truncated, nil
}
