package web

import (
	"net/http"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/post"
	"slipway/relay/internal/service"
)

type dashboardPage struct {
	frame
	Status   delivery.Status
	Apps     int
	Accepted int64
	Sent     int64
	Dead     int64
	Chart    chart
	Troubled []post.View
	Alerts   []service.OpenAlert
	Held     []account.Room
	Recent   []post.View
}

const (
	shownTroubled = 5
	shownRecent   = 8
	shownAlerts   = 50
)

func (web *Web) getDashboard(w http.ResponseWriter, v *sessionRequest) error {
	p := dashboardPage{frame: web.frame(v, "dashboard", "Overview")}
	apps, err := web.service.Applications(v.ctx(), v.Principal)
	if err != nil {
		return err
	}
	p.Apps = len(apps)
	hours, err := web.service.Hours(v.ctx(), v.Principal)
	if err != nil {
		return err
	}
	for _, h := range hours {
		p.Accepted, p.Sent, p.Dead = p.Accepted+h.Accepted, p.Sent+h.Sent, p.Dead+h.Dead
	}
	p.Chart = newChart(hours, time.Now())
	if err := web.fillDashboard(v, &p); err != nil {
		return err
	}
	return web.show(w, http.StatusOK, "dashboard", p)
}

func (web *Web) fillDashboard(v *sessionRequest, p *dashboardPage) error {
	rooms, err := web.service.Rooms(v.ctx(), v.Principal)
	if err != nil {
		return err
	}
	p.Status = web.status(v, rooms)
	for _, r := range rooms {
		if r.Problem() != "" {
			p.Held = append(p.Held, r)
		}
	}
	if p.Alerts, _, err = web.service.OpenAlerts(v.ctx(), v.Principal, 0, shownAlerts); err != nil {
		return err
	}
	troubled, err := web.service.Messages(v.ctx(), v.Principal, service.Filter{
		States: post.TroubledStates, Limit: shownTroubled, Since: time.Now().Add(-7 * 24 * time.Hour),
	})
	if err != nil {
		return err
	}
	recent, err := web.service.Messages(v.ctx(), v.Principal, service.Filter{Limit: shownRecent})
	p.Troubled, p.Recent = troubled.Messages, recent.Messages
	return err
}

// status returns the relay's condition. Users see only the backlog of their own applications' rooms.
func (web *Web) status(v *sessionRequest, rooms []account.Room) delivery.Status {
	s := web.service.Status(v.ctx())
	if v.Admin {
		return s
	}
	s.Waiting, s.OldestAge, s.Ambiguous, s.Dead = 0, 0, 0, 0
	for _, r := range rooms {
		s.Waiting += r.Waiting
		if r.Waiting > 0 && !r.Oldest.IsZero() { // zero if all are delayed
			s.OldestAge = max(s.OldestAge, time.Since(r.Oldest))
		}
	}
	return s
}
