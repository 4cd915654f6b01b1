package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const maxGrace = 30 * 24 * time.Hour

// Applications lists the applications that v may see: all for an administrator, their own for a user.
func (s *Accounts) Applications(ctx context.Context, v Principal) ([]Application, error) {
	found := s.cache.all(v.Sees)
	apps := make([]Application, 0, len(found))
	if len(found) == 0 {
		return apps, nil
	}
	rooms, totals, err := s.standing(ctx)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	for _, a := range found {
		row := a.Row()
		apps = append(apps, s.show(row, rooms[row.RoomID], totals[row.ID]))
	}
	slices.SortFunc(apps, func(a, b Application) int { return int(a.ID - b.ID) })
	return apps, nil
}

// Application returns one application that v may see.
func (s *Accounts) Application(ctx context.Context, v Principal, id int64) (Application, error) {
	a, err := s.AppFor(v, id)
	if err != nil {
		return Application{}, err
	}
	return s.application(ctx, a.Row())
}

// AppFor returns an application that v may see.
func (s *Accounts) AppFor(v Principal, id int64) (*App, error) {
	a := s.cache.app(id)
	if a == nil || !v.Sees(a.Row()) {
		return nil, refusal.NotFound("application")
	}
	return a, nil
}

// standing reads the state of all rooms and the totals of all applications.
func (s *Accounts) standing(ctx context.Context) (map[int64]store.Room, map[int64]store.Totals, error) {
	all, err := s.store.Rooms(ctx)
	if err != nil {
		return nil, nil, err
	}
	rooms := make(map[int64]store.Room, len(all))
	for _, r := range all {
		rooms[r.ID] = r
	}
	totals, err := s.store.Totals(ctx)
	return rooms, totals, err
}

// application returns an application with its room and totals.
func (s *Accounts) application(ctx context.Context, row *store.Application) (Application, error) {
	room, err := s.store.Room(ctx, row.RoomID)
	if err != nil && !store.IsMissing(err) {
		return Application{}, refusal.Unreadable(err)
	}
	totals, err := s.store.TotalsOf(ctx, row.ID)
	if err != nil && !store.IsMissing(err) {
		return Application{}, refusal.Unreadable(err)
	}
	return s.show(row, room, totals), nil
}

// CreateApplication creates an application and its token. Without a room the bot creates one, later if the homeserver
// does not answer.
func (s *Accounts) CreateApplication(ctx context.Context, v Principal, in ApplicationInput) (IssuedToken, error) {
	if v.UserID == 0 {
		return IssuedToken{}, refusal.Forbidden("An application cannot create applications: log in as a user.")
	}
	if in.Name == nil {
		return IssuedToken{}, refusal.Invalid("name", "A name is required.")
	}
	row := newRow(v.UserID)
	if err := s.setApplication(v, &row, in); err != nil {
		return IssuedToken{}, err
	}
	if err := s.checkEscalation(ctx, row.OwnerID, in.EscalateTo); err != nil {
		return IssuedToken{}, err
	}
	right, address, err := s.rightTo(ctx, v, row.OwnerID, value(in.Room))
	if err != nil {
		return IssuedToken{}, err
	}
	row.RoomRight = right
	token, hash := newToken(row.StrictCompatibility)
	row.TokenHash = hash
	app, err := s.insertApplication(ctx, v, &row, address)
	if err != nil {
		return IssuedToken{}, taken(err, "You have an application of this name.")
	}
	s.o.Rooms.Make(ctx, row.RoomID)
	issued := s.issued(ctx, app, token)
	switch a := &issued.Application; {
	case right != rightOwn || a.RoomProblem != "":
	case a.OwnerMatrixID == "":
		a.RoomProblem = post.NobodyInvited(a.OwnerName)
	case a.RoomID == "":
		a.RoomProblem = "The room does not exist yet: the bot creates it with the first message, or within 10 minutes after the homeserver responds again. Messages wait until then."
	}
	return issued, nil
}

// issued returns an application with its new token. The token is already valid, so an unreadable room is no error.
func (s *Accounts) issued(ctx context.Context, a *App, token string) IssuedToken {
	app, err := s.application(ctx, a.Row())
	if err != nil {
		app = s.show(a.Row(), store.Room{}, store.Totals{})
	}
	return IssuedToken{Application: app, Token: token}
}

// insertApplication stores an application with its room. A concurrent request may delete it before this returns.
func (s *Accounts) insertApplication(ctx context.Context, v Principal, row *store.Application, address string) (*App, error) {
	if address == "" {
		address = store.NewRoomAddress()
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	if _, ok := s.cache.user(row.OwnerID); !ok {
		return nil, refusal.Invalid("owner_id", "There is no such user.") // deleted meanwhile
	}
	if limit := int(s.maxApplications.Load()); limit > 0 && !v.Admin && len(s.cache.all(func(a *store.Application) bool { return a.OwnerID == row.OwnerID })) >= limit {
		return nil, refusal.Conflict("", fmt.Sprintf("A user may have %d applications (limits.applications): delete some first.", limit))
	}
	err := s.update(ctx, func(tx *store.Tx) error {
		if row.RoomRight == rightOwn && !v.Admin {
			if err := s.takeRoom(tx, row.OwnerID); err != nil {
				return err
			}
		}
		room, err := tx.RoomAt(address)
		if err != nil {
			return err
		}
		row.RoomID = room.ID
		return tx.CreateApplication(row)
	})
	if err != nil {
		return nil, err
	}
	return s.cache.putApp(*row), nil
}

// takeRoom counts a room that the bot will create. The room remains after the application is deleted.
func (s *Accounts) takeRoom(tx *store.Tx, owner int64) error {
	limit := int(s.maxApplications.Load())
	if limit == 0 {
		return nil
	}
	wait, err := tx.TakeRoom(owner, time.Now().UnixMilli(), (24*time.Hour).Milliseconds()/int64(limit))
	if err != nil || wait == 0 {
		return err
	}
	return &refusal.Error{
		Kind: refusal.KindRateLimited, RetryAfter: time.Duration(wait) * time.Millisecond,
		Message: fmt.Sprintf("%d rooms a day are made for a user (limits.applications): choose a room that you are in, or try again later.", limit),
	}
}

// UpdateApplication changes an application. Waiting messages still go to the room they were accepted for.
func (s *Accounts) UpdateApplication(ctx context.Context, v Principal, id int64, in ApplicationInput) (Application, error) {
	if v.UserID == 0 {
		return Application{}, refusal.NotFound("application")
	}
	to, err := s.newRoomOf(ctx, v, id, value(in.Room))
	if err != nil {
		return Application{}, err
	}
	if a, err := s.AppFor(v, id); err == nil {
		if err := s.checkEscalation(ctx, a.Row().OwnerID, in.EscalateTo); err != nil {
			return Application{}, err
		}
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	a, err := s.AppFor(v, id) // not before: it may be deleted until then
	if err != nil {
		return Application{}, err
	}
	if to != nil && to.owner != a.Row().OwnerID {
		return Application{}, refusal.Conflict("room_id", "The application has another owner now. Load it again.")
	}
	row := store.Application{}
	err = s.update(ctx, func(tx *store.Tx) error {
		row = *a.Row()
		if err := s.setApplication(v, &row, in); err != nil {
			return err
		}
		if to != nil {
			room, err := tx.RoomAt(to.address)
			if err != nil {
				return err
			}
			row.RoomID, row.RoomRight, row.OwnerAbsent = room.ID, to.right, false
		}
		return tx.UpdateApplication(&row)
	})
	if err != nil {
		return Application{}, taken(err, "There is an application of this name.")
	}
	s.cache.putApp(row)
	return s.application(ctx, a.Row())
}

// newRoom is the next room of an application.
type newRoom struct {
	right, address string
	owner          int64 // whose right it is
}

// newRoomOf checks whether an application may change its room. It returns nil if the room stays the same.
func (s *Accounts) newRoomOf(ctx context.Context, v Principal, id int64, address string) (*newRoom, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // no other room and no error
	}
	a, err := s.AppFor(v, id)
	if err != nil {
		return nil, err
	}
	room, err := s.store.Room(ctx, a.Row().RoomID)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	if address == room.Address || address == room.RoomID {
		return nil, nil //nolint:nilnil // no other room and no error
	}
	to := &newRoom{owner: a.Row().OwnerID}
	to.right, to.address, err = s.rightTo(ctx, v, to.owner, address)
	return to, err
}

// DefaultGrace is the time for which a replaced token stays valid, unless the request gives another.
func (s *Accounts) DefaultGrace() time.Duration {
	if s.o.CheckToken {
		return 0
	}
	return lenientGrace
}

// RegenerateToken creates a new token. The current one stays valid for grace; 0 ends it at once.
func (s *Accounts) RegenerateToken(ctx context.Context, v Principal, id int64, grace time.Duration) (IssuedToken, error) {
	if v.UserID == 0 {
		return IssuedToken{}, refusal.NotFound("application")
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	a, err := s.AppFor(v, id) // not before: it may be deleted until then
	if err != nil {
		return IssuedToken{}, err
	}
	if grace < 0 || grace > maxGrace {
		return IssuedToken{}, refusal.Invalid("grace", fmt.Sprintf("The grace period is at most %.0fh.", maxGrace.Hours()))
	}
	var token string
	var row store.Application
	err = s.update(ctx, func(tx *store.Tx) error {
		row = *a.Row()
		now := time.Now()
		row.OldTokenHash, row.OldTokenUntil = nil, 0
		if grace > 0 {
			row.OldTokenHash, row.OldTokenUntil = row.TokenHash, now.Add(grace).UnixMilli()
		}
		token, row.TokenHash = newToken(row.StrictCompatibility)
		row.TokenCreatedAt = now.UnixMilli()
		return tx.UpdateToken(&row)
	})
	if err != nil {
		return IssuedToken{}, refusal.Unwritable(err)
	}
	s.cache.putApp(row)
	return s.issued(ctx, a, token), nil
}

// DeleteApplication removes an application with its messages. Waiting messages are not delivered.
func (s *Accounts) DeleteApplication(ctx context.Context, v Principal, id int64) error {
	if v.UserID == 0 {
		return refusal.NotFound("application")
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	if _, err := s.AppFor(v, id); err != nil {
		return err
	}
	return s.deleteApplications(ctx, func(tx *store.Tx) error { return nil }, id)
}

// deleteApplications marks applications as deleted, together with another change. Their messages are hidden and no
// longer sent; the maintenance removes them in batches. The caller must hold s.edit.
func (s *Accounts) deleteApplications(ctx context.Context, also func(*store.Tx) error, ids ...int64) error {
	err := s.update(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteApplications(time.Now().UnixMilli(), ids...); err != nil {
			return err
		}
		return also(tx)
	})
	if err != nil {
		return refusal.Unwritable(err)
	}
	for _, id := range ids {
		s.cache.dropApp(id)
	}
	select {
	case s.deleted <- struct{}{}:
	default:
	}
	return nil
}

// newToken returns a token and its hash.
func newToken(strict bool) (string, []byte) {
	n := post.TokenLength
	if strict {
		n = post.StrictLength
	}
	token := "A" + base62(n-1)
	h := sha256.Sum256([]byte(token))
	return token, h[:]
}

// base62 returns n random characters, uniformly distributed.
func base62(n int) string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := make([]byte, 0, n)
	for buf := make([]byte, 2*n); len(out) < n; {
		_, _ = rand.Read(buf) // never fails
		for _, b := range buf {
			if int(b) < 256/len(alphabet)*len(alphabet) && len(out) < n {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out)
}

// taken returns a conflict for a violated unique index.
func taken(err error, message string) error {
	if store.IsTaken(err) {
		return &refusal.Error{Kind: refusal.KindConflict, Field: "name", Message: message, Err: err}
	}
	return refusal.Unwritable(err)
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
