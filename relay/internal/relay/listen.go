package relay

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
		return
	case matrix.Online:
		select {
		case s.online <- struct{}{}:
		default:
		}
	}
	d.Handle(e)
}

// lookAtOwners finds out, when the homeserver answers, whether the owners of applications are in the rooms that they
// have chosen. Sync reports changes from then on, but not everybody who is not in a room that took the place of another:
// so it looks again now and then.
func (s *Service) lookAtOwners(ctx context.Context) {
	const rarely = time.Hour
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.online:
		}
		for s.LookAtOwners(ctx) == nil { // else the next time the homeserver answers
			select {
			case <-ctx.Done():
				return
			case <-time.After(rarely):
			}
		}
	}
}
