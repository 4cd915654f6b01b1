package service

import (
	"context"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
)

// Hour counts what happened within one hour.
type Hour struct {
	Start    time.Time
	Accepted int64
	Sent     int64
	Dead     int64
}

// Hours counts the last 24 hours of what v may see, oldest first, always 24 entries.
func (s *Intake) Hours(ctx context.Context, v account.Principal) ([]Hour, error) {
	if v.UserID == 0 {
		return nil, refusal.Forbidden("Log in first.")
	}
	owner := v.UserID
	if v.Admin {
		owner = 0
	}
	const day = 24
	first := time.Now().Unix()/3600 - day + 1
	stats, err := s.store.Hours(ctx, owner, first)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	hours := make([]Hour, day)
	for i := range hours {
		hours[i].Start = time.Unix((first+int64(i))*3600, 0).UTC()
	}
	for _, st := range stats {
		if i := st.Hour - first; i < day {
			hours[i].Accepted, hours[i].Sent, hours[i].Dead = st.Accepted, st.Sent, st.Dead
		}
	}
	return hours, nil
}
