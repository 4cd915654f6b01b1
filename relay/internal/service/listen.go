package service

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/delivery"
	"slipway/relay/internal/matrix"
)

// listen handles the events of the homeserver, until ctx is done.
func (s *Service) listen(ctx context.Context, d *delivery.Delivery) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.o.Events:
			s.handle(ctx, d, e)
		}
	}
}

func (s *Service) handle(ctx context.Context, d *delivery.Delivery, e matrix.Event) {
	switch e := e.(type) {
	case matrix.Member:
		if err := s.Presence(ctx, e.Room, e.User, e.Membership == "join"); err != nil {
			s.log.Error("cannot store who is in a room", zap.String("room", e.Room), zap.Error(err))
		}
		if e.Membership == "join" { // perhaps without the right to write
			s.checkOwnersSoon()
		}
		return
	case matrix.Reaction:
		if err := s.acknowledged(ctx, e); err != nil {
			s.log.Error("cannot store an acknowledgement", zap.String("room", e.Room), zap.Error(err))
		}
		return
	case matrix.Online, matrix.PowerLevels:
		s.checkOwnersSoon()
	}
	d.Handle(e)
}

func (s *Service) checkOwnersSoon() {
	select {
	case s.online <- struct{}{}:
	default:
	}
}

// checkOwners checks whether the owners of applications are in the rooms that they chose: when the homeserver answers for the
// first time or again, and every hour, because sync doesn't report who is missing from a room that replaced another.
func (s *Service) checkOwners(ctx context.Context) {
	const interval = time.Hour
	var due <-chan time.Time // nil until the homeserver has answered once
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.online:
		case <-due:
		}
		if err := s.CheckOwners(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot check whether owners are in their rooms; trying again in an hour", zap.Error(err))
		}
		due = time.After(interval)
	}
}
