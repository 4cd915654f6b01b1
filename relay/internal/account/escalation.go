package account

import (
	"context"
	"fmt"
	"strings"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const maxEscalation = 100

// setEscalation checks and sets whom reminders turn to.
func setEscalation(row *store.Application, in ApplicationInput) error {
	err := setNumber(&row.EscalateAfter, in.EscalateAfter, 0, maxEscalation, "escalate_after", "The number of reminders is from %d to %d.")
	if err != nil || in.EscalateTo == nil {
		return err
	}
	targets := listOf(*in.EscalateTo)
	if len(targets) > maxMentions {
		return refusal.Invalid("escalate_to", fmt.Sprintf("Reminders can turn to at most %d people and rooms.", maxMentions))
	}
	for _, to := range targets {
		room := strings.HasPrefix(to, "!") || strings.HasPrefix(to, "#")
		if room && CheckAddress(to) != nil || !room && (len(to) > maxMatrixID || !matrixID.MatchString(to)) {
			return refusal.Invalid("escalate_to", "The choices are Matrix IDs such as @name:server, and rooms of your applications, by !id or #alias:server.")
		}
	}
	row.EscalateTo = strings.Join(targets, " ")
	return nil
}

// listOf splits a list of people and rooms.
func listOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// checkEscalation refuses rooms to which no application of the owner sends: the right to write there is checked with those.
func (s *Accounts) checkEscalation(ctx context.Context, owner int64, to *string) error {
	if to == nil || !strings.ContainsAny(*to, "!#") {
		return nil
	}
	rooms, err := s.store.Rooms(ctx)
	if err != nil {
		return refusal.Unreadable(err)
	}
	known := map[string]bool{}
	for _, a := range s.cache.all(func(app *store.Application) bool { return app.OwnerID == owner }) {
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
