package service

import (
	"context"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
)

// Own accepts a message of the relay itself about an application. Limits don't apply.
func (s *Intake) Own(ctx context.Context, application int64, r post.Draft) error {
	app, err := s.accounts.App(ctx, application)
	if err != nil {
		return err
	}
	r.Source = post.SourceRelay
	stored, err := s.prepare(ctx, app, []post.Draft{r}, time.Now())
	if err == nil {
		err = s.store.Accept(ctx, stored...)
	}
	if err == nil {
		_, err = s.accepted(ctx, app, stored)
	}
	return err
}

// Beat records a heartbeat of an application, which counts toward its rate limit.
func (s *Intake) Beat(ctx context.Context, app *account.App) error {
	now := time.Now()
	if err := s.withinRate(ctx, app, 1, now); err != nil {
		return s.counted(err)
	}
	if err := s.store.Beat(ctx, app.ID, now.UnixMilli()); err != nil {
		return refusal.Unwritable(err)
	}
	return nil
}
