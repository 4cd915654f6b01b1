package relay

import (
	"context"
	"time"

	"slipway/relay/internal/refusal"
)

// Status tells the relay's present condition.
func (s *Service) Status(ctx context.Context) Status {
	st := Status{Waiting: s.d.depth.Load(), OldestAge: s.d.age(), Parked: s.d.parked()}
	st.Paused, st.PausedAt = s.d.gate.state()
	st.Degraded = s.d.gate.doubtful()
	var err error
	st.Ambiguous, st.Dead, err = s.store.Troubled(ctx)
	st.DatabaseOK = err == nil
	return st
}

// Hours counts the last 24 hours of what v may see, oldest first, always 24 entries.
func (s *Service) Hours(ctx context.Context, v Viewer) ([]Hour, error) {
	if v.UserID == 0 {
		return nil, &Error{Kind: KindForbidden, Message: "Log in first."}
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

// CheckDatabase makes sure that the database can be written to, for health checks and the doctor.
func (s *Service) CheckDatabase(ctx context.Context) error { return s.store.Check(ctx) }

// Setting returns a small value that is kept in the database (sync position, device id …), "" if unset.
func (s *Service) Setting(ctx context.Context, key string) (string, error) {
	return s.store.Setting(ctx, key)
}

// SetSetting keeps a small value in the database; "" removes it.
func (s *Service) SetSetting(ctx context.Context, key, value string) error {
	return s.store.SetSetting(ctx, key, value)
}
