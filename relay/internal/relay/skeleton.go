package relay

import (
	"context"
	"errors"
	"time"
)

var errSkeleton = errors.New("not built yet")

// Service is the relay. Its methods may be called by any number of goroutines; their errors are [*Error]s.
type Service struct{}

// New opens the database, takes its lock, migrates it and brings the administrator up to date. A second relay on
// the same database is refused. Nothing is delivered before Run.
func New(ctx context.Context, o Options) (*Service, error) { return nil, errSkeleton }

// Run delivers until ctx is done, then finishes what is in flight (at most ten seconds) and returns. The
// homeserver need not be there.
func (s *Service) Run(ctx context.Context) error { return errSkeleton }

// Close commits what is pending and closes the database. Call it after Run has returned and intake has stopped.
func (s *Service) Close() error { return errSkeleton }

// Accept checks a message and commits it to the outbox. When it returns without error the message is durable and
// will be delivered; the homeserver is never touched here.
func (s *Service) Accept(ctx context.Context, r AcceptRequest) (Accepted, error) {
	return Accepted{}, errSkeleton
}

// Wait waits until a message is at rest, at most d, and returns it as it then is.
func (s *Service) Wait(ctx context.Context, v Viewer, id int64, d time.Duration) (Message, error) {
	return Message{}, errSkeleton
}

// Message returns one message that v may see.
func (s *Service) Message(ctx context.Context, v Viewer, id int64) (Message, error) {
	return Message{}, errSkeleton
}

// Messages lists the messages that v may see, newest first.
func (s *Service) Messages(ctx context.Context, v Viewer, f MessageFilter) (MessagePage, error) {
	return MessagePage{}, errSkeleton
}

// Redeliver queues a message again that is dead, ambiguous or cancelled. Any other state is a conflict.
func (s *Service) Redeliver(ctx context.Context, v Viewer, id int64) (Message, error) {
	return Message{}, errSkeleton
}

// Cancel withdraws a message: one that waits is cancelled, one that was sent is redacted in its room.
func (s *Service) Cancel(ctx context.Context, v Viewer, id int64) (Message, error) {
	return Message{}, errSkeleton
}

// TokenViewer returns the viewer that an application's token stands for.
func (s *Service) TokenViewer(ctx context.Context, token string) (Viewer, error) {
	return Viewer{}, errSkeleton
}

// Authenticate checks a name and password and returns who it is. Attempts are limited per name and per address.
func (s *Service) Authenticate(ctx context.Context, name, password, address string) (Viewer, error) {
	return Viewer{}, errSkeleton
}

// Login checks a name and password as Authenticate does and begins a session.
func (s *Service) Login(ctx context.Context, name, password, address string) (Session, error) {
	return Session{}, errSkeleton
}

// SessionViewer returns who a session's token belongs to, and the session (for its CSRF word).
func (s *Service) SessionViewer(ctx context.Context, token string) (Viewer, Session, error) {
	return Viewer{}, Session{}, errSkeleton
}

// Logout ends a session. An unknown token is no error.
func (s *Service) Logout(ctx context.Context, token string) error { return errSkeleton }

// Applications lists the applications that v may see: an administrator all, a user the own ones.
func (s *Service) Applications(ctx context.Context, v Viewer) ([]Application, error) {
	return nil, errSkeleton
}

// Application returns one application that v may see.
func (s *Service) Application(ctx context.Context, v Viewer, id int64) (Application, error) {
	return Application{}, errSkeleton
}

// CreateApplication makes an application and its token. Without a room the bot makes one, at once if the homeserver
// answers in time, else as soon as it does.
func (s *Service) CreateApplication(ctx context.Context, v Viewer, in ApplicationInput) (IssuedToken, error) {
	return IssuedToken{}, errSkeleton
}

// UpdateApplication changes an application. Messages that wait go to the room they were accepted for.
func (s *Service) UpdateApplication(ctx context.Context, v Viewer, id int64, in ApplicationInput) (Application, error) {
	return Application{}, errSkeleton
}

// DeleteApplication removes an application with its messages; what waits is not delivered any more.
func (s *Service) DeleteApplication(ctx context.Context, v Viewer, id int64) error {
	return errSkeleton
}

// RegenerateToken makes a new token; the present one stays valid for grace (0: not at all).
func (s *Service) RegenerateToken(ctx context.Context, v Viewer, id int64, grace time.Duration) (IssuedToken, error) {
	return IssuedToken{}, errSkeleton
}

// Users lists all users, for administrators.
func (s *Service) Users(ctx context.Context, v Viewer) ([]User, error) { return nil, errSkeleton }

// User returns one user; a user who is no administrator may see only the own record.
func (s *Service) User(ctx context.Context, v Viewer, id int64) (User, error) {
	return User{}, errSkeleton
}

// CreateUser makes a user, for administrators. Name and password are required.
func (s *Service) CreateUser(ctx context.Context, v Viewer, in UserInput) (User, error) {
	return User{}, errSkeleton
}

// UpdateUser changes a user. A user may change the own password and Matrix id. The last administrator stays one.
// A new password ends the user's sessions.
func (s *Service) UpdateUser(ctx context.Context, v Viewer, id int64, in UserInput) (User, error) {
	return User{}, errSkeleton
}

// DeleteUser removes a user with the user's applications, for administrators. The last administrator stays.
func (s *Service) DeleteUser(ctx context.Context, v Viewer, id int64) error { return errSkeleton }

// Rooms lists the target rooms of the applications that v may see, with what is wrong with them.
func (s *Service) Rooms(ctx context.Context, v Viewer) ([]Room, error) { return nil, errSkeleton }

// RetryRoom lets a parked room try again.
func (s *Service) RetryRoom(ctx context.Context, v Viewer, address string) error { return errSkeleton }

// Status tells the relay's present condition.
func (s *Service) Status(ctx context.Context) Status { return Status{} }

// Hours counts the last 24 hours of what v may see, oldest first, always 24 entries.
func (s *Service) Hours(ctx context.Context, v Viewer) ([]Hour, error) { return nil, errSkeleton }

// CheckDatabase makes sure that the database can be written to, for health checks and the doctor.
func (s *Service) CheckDatabase(ctx context.Context) error { return errSkeleton }

// MatrixUsers lists the Matrix ids of all users, from whom the bot takes invitations.
func (s *Service) MatrixUsers(ctx context.Context) ([]string, error) { return nil, errSkeleton }

// RoomJoined is called by the Matrix side when the bot has come into a room: its messages go on.
func (s *Service) RoomJoined(roomID string) {}

// RoomLeft is called by the Matrix side when the bot was removed from a room: its messages wait.
func (s *Service) RoomLeft(roomID, reason string) {}

// RoomEncrypted is called by the Matrix side when a room is seen encrypted. It is remembered for ever.
func (s *Service) RoomEncrypted(roomID string) {}

// RoomReplaced is called by the Matrix side when a room was upgraded and the bot is in the new one: applications
// and waiting messages move there.
func (s *Service) RoomReplaced(oldID, newID string) {}

// Echo is called by the Matrix side when sync shows an event of ours with its transaction id. It settles a send
// whose answer was lost.
func (s *Service) Echo(roomID, txnID, eventID string) {}

// Resume is called by the Matrix side when the session is good again: a pause ends.
func (s *Service) Resume() {}

// Setting returns a small value that is kept in the database (sync position, device id …), "" if unset.
func (s *Service) Setting(ctx context.Context, key string) (string, error) { return "", errSkeleton }

// SetSetting keeps a small value in the database; "" removes it.
func (s *Service) SetSetting(ctx context.Context, key, value string) error { return errSkeleton }
