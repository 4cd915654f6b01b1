package auth

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/shared/filewatch"
)

const (
	// DefaultRemember is the time for which a verified password is taken without
	// comparing it again, counted from its last use.
	DefaultRemember = time.Minute

	retryAfter = 5 * time.Second
)

// HtpasswdOptions configures NewHtpasswd.
type HtpasswdOptions struct {
	Path string
	Log  *zap.Logger

	// Remember is the time after its last use for which a right password is
	// taken without comparing it again; 0 is DefaultRemember, negative is never. A
	// changed or removed line of the file ends it immediately.
	Remember time.Duration
}

// Htpasswd authenticates with the users of an htpasswd file. A change of the file
// counts within about a second. While the file is missing or unreadable every login
// is refused as temporarily unavailable.
type Htpasswd struct {
	file      *filewatch.Value[*users] // strict: an old copy could admit a user whose line was removed
	path      string
	passwords *passwords
	seed      maphash.Seed
}

// NewHtpasswd reads the file. A missing one is an error that names the command
// which makes it.
func NewHtpasswd(o HtpasswdOptions) (*Htpasswd, error) {
	file, err := openPasswordFile(o.Path, o.Log)
	if err != nil {
		return nil, err
	}
	if o.Remember == 0 {
		o.Remember = DefaultRemember
	}
	return &Htpasswd{file: file, path: o.Path, passwords: newPasswords(o.Remember), seed: maphash.MakeSeed()}, nil
}

// openPasswordFile reads the file for the first time. Each line that gives no one access is logged
// once.
func openPasswordFile(path string, log *zap.Logger) (*filewatch.Value[*users], error) {
	var reported []brokenLine
	file, err := filewatch.Open(filewatch.Options{What: "password file", Paths: []string{path}, Log: log, Strict: true}, func(contents [][]byte) (*users, error) {
		u := parseUsers(contents[0])
		for _, b := range u.broken {
			if !slices.ContainsFunc(reported, func(r brokenLine) bool { return r.user == b.user && r.reason == b.reason }) {
				log.Error("a line of the password file gives nobody access",
					zap.String("file", path), zap.Int("line", b.number), zap.String("user", b.user), zap.String("reason", b.reason))
			}
		}
		reported = u.broken
		return u, nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the password file %[1]s does not exist; make it with: registry htpasswd %[1]s USER", path)
	}
	if err != nil {
		return nil, fmt.Errorf("password file: %w", err)
	}
	return file, nil
}

// Reload reads the password file now. The error is logged.
func (h *Htpasswd) Reload() error { return h.file.Reload() }

// login returns the user whom the password belongs to, and whether that was found out
// just now. The error is a *Refusal, or the context's when the client hung up while it
// waited.
func (h *Htpasswd) login(r *http.Request, c credentials) (u user, fresh bool, err error) {
	users := h.file.Get()
	if users == nil {
		return user{}, false, later(oci.CodeUnavailable, NoPasswordFile, c, "logins are not possible at the moment")
	}
	if len(c.user)+len(c.password) > maxCredentials {
		return user{}, false, &Refusal{Reason: UnknownUser, User: string(c.user[:min(len(c.user), maxGuessedName)])}
	}
	u, known := users.find(c.user, h.seed)
	matches, fresh, err := h.passwords.compare(r.Context(), c, r.RemoteAddr, u.hash)
	switch {
	case errors.Is(err, errBusy):
		return user{}, false, later(oci.CodeTooManyRequests, TooManyLogins, c, "too many logins at once")
	case err != nil:
		return user{}, false, fmt.Errorf("wait for the comparison of a password: %w", err)
	case !known && users.isDisabled(string(c.user)):
		return user{}, false, &Refusal{Reason: DisabledUser, User: string(c.user)}
	case !known:
		return user{}, false, &Refusal{Reason: UnknownUser, User: string(c.user)}
	case !matches:
		return user{}, false, &Refusal{Reason: WrongPassword, User: string(c.user)}
	}
	return u, fresh, nil
}

// current returns the user as of now, the zero user if there is none. err is set while nobody can tell.
func (h *Htpasswd) current(name string) (user, error) {
	users := h.file.Get()
	if users == nil {
		return user{}, later(oci.CodeUnavailable, NoPasswordFile, credentials{user: []byte(name)}, "logins are not possible at the moment")
	}
	return users.byName[name], nil
}

func later(code oci.Code, reason Reason, c credentials, detail string) *Refusal {
	return &Refusal{Reason: reason, User: string(c.user), RetryAfter: retryAfter, Err: oci.Explain(code, detail)}
}
