package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Imported is the result for a user or an application.
type Imported struct {
	Noun  string // "user" or "application"
	Name  string
	Taken bool
	Note  string // a clause; what is worth knowing, or why it was not taken
}

// importedKey begins the settings that record imports, so that a second import doesn't undo later changes.
const importedKey = "imported."

// errDry rolls back a dry run.
var errDry = errors.New("dry run")

// Import copies the users and applications of PushBits in one transaction. Existing and earlier imported ones stay as they are. Without
// commit nothing changes, and the results are those of a real run. v, an administrator, becomes the owner of
// applications whose owner cannot be imported.
func (s *Accounts) Import(ctx context.Context, v Principal, from *store.PushBits, commit bool) ([]Imported, error) {
	if err := v.MustAdmin(); err != nil {
		return nil, err
	}
	im := &importer{s: s, admin: v, owners: map[int64]int64{}}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		im.tx, im.results = tx, nil
		clear(im.owners)
		if err := im.run(from); err != nil {
			return err
		}
		if !commit {
			return errDry
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDry) {
		return nil, refusal.Unwritable(err)
	}
	return im.results, nil
}

// importer is one import.
type importer struct {
	s       *Accounts
	tx      *store.Tx
	admin   Principal       // owns applications without another owner
	owners  map[int64]int64 // users there → users here
	results []Imported
}

func (im *importer) run(from *store.PushBits) error {
	for _, u := range from.Users {
		if err := im.user(u); err != nil {
			return fmt.Errorf("user %q: %w", u.Name, err)
		}
	}
	for _, a := range from.Applications {
		if err := im.application(a); err != nil {
			return fmt.Errorf("application %q: %w", a.Name, err)
		}
	}
	return nil
}

func (im *importer) add(noun, name string, taken bool, format string, args ...any) {
	im.results = append(im.results, Imported{Noun: noun, Name: name, Taken: taken, Note: fmt.Sprintf(format, args...)})
}

func (im *importer) user(u store.PushBitsUser) error {
	row := store.User{IsAdmin: u.Admin, CreatedAt: time.Now().UnixMilli()}
	if err := im.s.setUser(context.Background(), &row, UserInput{Name: &u.Name}); err != nil {
		im.add("user", u.Name, false, "the name is not allowed here (%s); the applications go to %s", messageOf(err), im.admin.Name)
		return nil
	}
	note := importedKey + "user." + row.Name
	there, err := im.tx.UserNamed(row.Name)
	if err != nil && !store.IsMissing(err) {
		return err
	}
	earlier, err := im.seen(note)
	switch {
	case err != nil:
		return err
	case there.ID != 0 && there.Name == row.Name:
		im.owners[u.ID] = there.ID
		im.add("user", u.Name, false, "already exists; left unchanged, including its password")
		return nil
	case there.ID != 0:
		im.add("user", u.Name, false, "names are case-insensitive here and %s exists; the applications go to %s", there.Name, im.admin.Name)
		return nil
	case earlier:
		im.add("user", u.Name, false, "was imported earlier and deleted since; the applications go to %s", im.admin.Name)
		return nil
	}
	remark := im.complete(&row, u)
	if err := im.tx.SaveUser(&row); err != nil {
		return err
	}
	im.owners[u.ID] = row.ID
	im.add("user", u.Name, true, "%s", remark)
	return im.remember(note, row.ID)
}

// complete sets the password hash and Matrix ID of a user and returns a remark about what is lost.
func (im *importer) complete(row *store.User, u store.PushBitsUser) (remark string) {
	row.PasswordHash, remark = u.PasswordHash, "with the password"
	if !usable(u.PasswordHash) {
		row.PasswordHash, remark = "", "without a password: its hash cannot be used, set a new one"
	}
	if err := im.s.setUser(context.Background(), row, UserInput{MatrixID: &u.MatrixID}); err != nil {
		remark += fmt.Sprintf(", and without the Matrix ID %q, which is not valid", u.MatrixID)
	}
	return remark
}

func (im *importer) application(a store.PushBitsApplication) error {
	if a.Token == "" || len(a.Token) > maxToken || !post.Printable(a.Token) {
		im.add("application", a.Name, false, "its token is not valid")
		return nil
	}
	sum := sha256.Sum256([]byte(a.Token))
	note := importedKey + "token." + hex.EncodeToString(sum[:])
	there, err := im.tx.HasToken(sum[:])
	if err != nil {
		return err
	}
	earlier, err := im.seen(note)
	switch {
	case err != nil:
		return err
	case there:
		im.add("application", a.Name, false, "already exists")
		return nil
	case earlier:
		im.add("application", a.Name, false, "was imported earlier, and was deleted or given a new token since")
		return nil
	}
	row := newRow(0)
	row.StrictCompatibility, row.TokenHash = len(a.Token) == post.StrictLength, sum[:]
	remark, err := im.place(&row, a)
	if err != nil {
		return err
	}
	if err := im.tx.CreateApplication(&row); err != nil {
		return err
	}
	im.add("application", a.Name, true, "%s", remark)
	return im.remember(note, row.ID)
}

// place sets the owner, a unique name and the room of an application and returns a remark about differences.
func (im *importer) place(row *store.Application, a store.PushBitsApplication) (remark string, err error) {
	remark = "with its token"
	owner, ok := im.owners[a.UserID]
	if !ok {
		owner = im.admin.UserID
		remark += ", to " + im.admin.Name
	}
	row.OwnerID = owner
	name, err := checkName(a.Name)
	if err != nil {
		name = "imported"
	}
	if row.Name, err = im.free(owner, name); err != nil {
		return "", err
	}
	if row.Name != a.Name {
		remark += ", as " + row.Name
	}
	address := a.RoomID
	if address == "" || address[0] != '!' || CheckAddress(address) != nil {
		address = store.NewRoomAddress()
		remark += ", with a new room"
	}
	room, err := im.tx.RoomAt(address)
	row.RoomID = room.ID
	return remark, err
}

// free returns the name, with a number if the owner already has an application of that name.
func (im *importer) free(owner int64, name string) (string, error) {
	for n, try := 2, name; ; n++ {
		if taken, err := im.tx.HasApplication(owner, try); err != nil || !taken {
			return try, err
		}
		try = post.Clean(name[:min(len(name), maxName-10)]) + " " + strconv.Itoa(n)
	}
}

func (im *importer) seen(key string) (bool, error) {
	v, err := im.tx.Setting(key)
	return v != "", err
}

func (im *importer) remember(key string, id int64) error {
	return im.tx.SetSetting(key, strconv.FormatInt(id, 10))
}

func messageOf(err error) string {
	var e *refusal.Error
	if errors.As(err, &e) {
		return strings.TrimSuffix(e.Message, ".")
	}
	return err.Error()
}
