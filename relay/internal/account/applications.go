package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const maxGrace = 30 * 24 * time.Hour

// Applications lists the applications that v may see: all for an administrator, their own for a user.
func (s *Accounts) Applications(ctx context.Context, v Principal) ([]Application, error) {
	found, err := s.visible(ctx, v)
	apps := make([]Application, 0, len(found))
	if err != nil || len(found) == 0 {
		return apps, err
	}
	rooms, err := s.store.Rooms(ctx)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	owners, err := s.store.Users(ctx)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	roomOf, ownerOf := map[int64]store.Room{}, byID(owners)
	for _, r := range rooms {
		roomOf[r.ID] = r
	}
	for i := range found {
		apps = append(apps, show(&found[i], roomOf[found[i].RoomID], ownerOf[found[i].OwnerID]))
	}
	return apps, nil
}

func byID(users []store.User) map[int64]store.User {
	all := make(map[int64]store.User, len(users))
	for _, u := range users {
		all[u.ID] = u
	}
	return all
}

// visible returns the applications that v may see, in the order of their IDs.
func (s *Accounts) visible(ctx context.Context, v Principal) ([]store.Application, error) {
	owner := v.UserID
	switch {
	case v.UserID == 0 && v.ApplicationID == 0:
		return nil, nil
	case v.Admin && v.ClientID == 0:
		owner = 0
	}
	all, err := s.store.Applications(ctx, owner, v.ApplicationID)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	return all, nil
}

// Application returns one application that v may see.
func (s *Accounts) Application(ctx context.Context, v Principal, id int64) (Application, error) {
	a, err := s.AppFor(ctx, v, id)
	if err != nil {
		return Application{}, err
	}
	return s.application(ctx, &a.Application)
}

// application returns an application with its room and its owner.
func (s *Accounts) application(ctx context.Context, row *store.Application) (Application, error) {
	room, err := s.store.Room(ctx, row.RoomID)
	if err != nil && !store.IsMissing(err) {
		return Application{}, refusal.Unreadable(err)
	}
	owner, err := s.store.User(ctx, row.OwnerID)
	if err != nil && !store.IsMissing(err) {
		return Application{}, refusal.Unreadable(err)
	}
	return show(row, room, owner), nil
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
	if err := s.insertApplication(ctx, v, &row, address); err != nil {
		return IssuedToken{}, taken(err, "You have an application of this name.")
	}
	s.o.Rooms.Make(ctx, row.RoomID)
	issued := s.issued(ctx, &row, token)
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
func (s *Accounts) issued(ctx context.Context, row *store.Application, token string) IssuedToken {
	app, err := s.application(ctx, row)
	if err != nil {
		app = show(row, store.Room{}, store.User{})
	}
	return IssuedToken{Application: app, Token: token}
}

// insertApplication stores an application with its room. A concurrent request may delete it before this returns.
func (s *Accounts) insertApplication(ctx context.Context, v Principal, row *store.Application, address string) error {
	if address == "" {
		address = store.NewRoomAddress()
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		row.ID = 0
		if err := checkOwner(tx, row.OwnerID); err != nil {
			return err
		}
		if limit := s.maxApplications.Load(); limit > 0 && !v.Admin {
			switch n, err := tx.CountApplications(row.OwnerID); {
			case err != nil:
				return err
			case n >= limit:
				return refusal.Conflict("", fmt.Sprintf("A user may have %d applications (limits.applications): delete some first.", limit))
			}
		}
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
}

// checkOwner returns a refusal if there is no user with the ID owner. It locks the user's row until the transaction ends.
func checkOwner(tx *store.Tx, owner int64) error {
	_, err := tx.User(owner)
	if store.IsMissing(err) {
		return refusal.Invalid("owner_id", "There is no such user.")
	}
	return err
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
	before, err := s.AppFor(ctx, v, id)
	if err != nil {
		return Application{}, err
	}
	to, err := s.newRoomOf(ctx, v, before, value(in.Room))
	if err != nil {
		return Application{}, err
	}
	if err := s.checkEscalation(ctx, before.OwnerID, in.EscalateTo); err != nil {
		return Application{}, err
	}
	row, err := s.change(ctx, v, id, func(tx *store.Tx, row *store.Application) error {
		owner := row.OwnerID
		if to != nil && owner != before.OwnerID {
			return refusal.Conflict("room_id", "The application has another owner now. Load it again.")
		}
		if err := s.setApplication(v, row, in); err != nil {
			return err
		}
		if row.OwnerID != owner {
			if err := checkOwner(tx, row.OwnerID); err != nil {
				return err
			}
		}
		if to != nil {
			room, err := tx.RoomAt(to.address)
			if err != nil {
				return err
			}
			row.RoomID, row.RoomRight, row.OwnerAbsent = room.ID, to.right, false
		}
		return tx.UpdateApplication(row)
	})
	if err != nil {
		return Application{}, taken(err, "There is an application of this name.")
	}
	s.o.Rooms.Make(ctx, row.RoomID) // if that failed before
	return s.application(ctx, &row)
}

// change changes an application that v may see, and returns it as it is then.
func (s *Accounts) change(ctx context.Context, v Principal, id int64, change func(*store.Tx, *store.Application) error) (row store.Application, err error) {
	err = s.store.Update(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Application(id)
		if store.IsMissing(err) || err == nil && !v.Sees(row.ID, row.OwnerID) {
			return refusal.NotFound("application")
		}
		if err != nil {
			return err
		}
		return change(tx, &row)
	})
	return row, err
}

// newRoom is the next room of an application.
type newRoom struct{ right, address string }

// newRoomOf checks whether an application may change its room. It returns nil if the room stays the same.
func (s *Accounts) newRoomOf(ctx context.Context, v Principal, app *App, address string) (*newRoom, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // no other room and no error
	}
	room, err := s.store.Room(ctx, app.RoomID)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	if address == room.Address || address == room.RoomID {
		return nil, nil //nolint:nilnil // no other room and no error
	}
	right, resolved, err := s.rightTo(ctx, v, app.OwnerID, address)
	return &newRoom{right, resolved}, err
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
	if grace < 0 || grace > maxGrace {
		return IssuedToken{}, refusal.Invalid("grace", fmt.Sprintf("The grace period is at most %.0fh.", maxGrace.Hours()))
	}
	var token string
	row, err := s.change(ctx, v, id, func(tx *store.Tx, row *store.Application) error {
		now := time.Now()
		row.OldTokenHash, row.OldTokenUntil = nil, 0
		if grace > 0 {
			row.OldTokenHash, row.OldTokenUntil = row.TokenHash, now.Add(grace).UnixMilli()
		}
		token, row.TokenHash = newToken(row.StrictCompatibility)
		row.TokenCreatedAt = now.UnixMilli()
		return tx.UpdateToken(row)
	})
	if err != nil {
		return IssuedToken{}, refusal.Unwritable(err)
	}
	return s.issued(ctx, &row, token), nil
}

// DeleteApplication removes an application with its messages. Waiting messages are not delivered: they are hidden, and the maintenance
// removes them in batches.
func (s *Accounts) DeleteApplication(ctx context.Context, v Principal, id int64) error {
	if v.UserID == 0 {
		return refusal.NotFound("application")
	}
	_, err := s.change(ctx, v, id, func(tx *store.Tx, row *store.Application) error {
		return tx.DeleteApplications(time.Now().UnixMilli(), row.OwnerID, id)
	})
	if err != nil {
		return refusal.Unwritable(err)
	}
	s.tellDeleted()
	return nil
}

func (s *Accounts) tellDeleted() {
	select {
	case s.deleted <- struct{}{}:
	default:
	}
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
