package account

import (
	"context"
	"fmt"
	"strings"

	"slipway/relay/internal/refusal"
)

// checkEscalation refuses rooms to which no application of the owner may send: the right to write there is checked with those.
func (s *Accounts) checkEscalation(ctx context.Context, owner int64, to *string) error {
	if to == nil || !strings.ContainsAny(*to, "!#") {
		return nil
	}
	apps, err := s.store.Applications(ctx, owner, 0)
	if err != nil {
		return refusal.Unreadable(err)
	}
	rooms, err := s.store.Rooms(ctx)
	if err != nil {
		return refusal.Unreadable(err)
	}
	known := map[string]bool{}
	for i := range apps {
		for _, r := range rooms {
			if r.ID == apps[i].RoomID && !lost(&apps[i]) {
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
