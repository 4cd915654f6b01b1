package service

import (
	"context"

	"slipway/relay/internal/account"
)

// EnsureRoom makes or looks up the room of an application that v may manage, whether the service runs or not, and
// returns the application. It delivers nothing. KindUnavailable says that a later attempt may succeed.
func (s *Service) EnsureRoom(ctx context.Context, v account.Principal, id int64) (account.Application, error) {
	app, err := s.AppFor(v, id)
	if err != nil {
		return account.Application{}, err
	}
	if err := s.deliverer().EnsureRoom(ctx, app.Row().RoomID); err != nil {
		return account.Application{}, err
	}
	return s.Application(ctx, v, id)
}
