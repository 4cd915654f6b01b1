package account

import (
	"context"
	"fmt"
	"strings"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// checkEscalation refuses rooms to which no application of the owner may send: the right to write there is checked with those.
func (s *Accounts) checkEscalation(ctx context.Context, owner int64, to *string) error {
	if to == nil || !strings.ContainsAny(*to, "!#") {
		return nil
	}
	rooms, err := s.store.Rooms(ctx)
	if err != nil {
		return refusal.Unreadable(err)
	}
	known := map[string]bool{}
	for _, a := range s.cache.all(func(app *store.Application) bool { return app.OwnerID == owner && !lost(app) }) {
		for _, r := range rooms {
			if r.ID == a.Row().RoomID {
				known[r.Address], known[r.RoomID] = true, true
			}
		}
	}
	for _, address := range listOf(*to) {
		if !strings.HasPrefix(address, "@") && !known[address] {
			return refusal.Invalid("escalate_to", fmt.Sprintf("No application of the owner sends to the room %s: create one for it first.", address))
		}
	}
	return nil
}
