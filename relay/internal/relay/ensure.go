package relay

import "context"

// EnsureRoom makes or looks up the room of an application that v may manage, whether the service runs or not, and
// returns the application. It delivers nothing. KindUnavailable says that a later attempt may succeed.
func (s *Service) EnsureRoom(ctx context.Context, v Viewer, id int64) (Application, error) {
	app, err := s.AppFor(v, id)
	if err != nil {
		return Application{}, err
	}
	if err := s.delivery.EnsureRoom(ctx, app.Row().RoomID); err != nil {
		return Application{}, err
	}
	return s.Application(ctx, v, id)
}
