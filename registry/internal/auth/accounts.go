package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
)

// Errors of [Accounts].
var (
	ErrInvalid           = errors.New("invalid user")
	ErrNoUser            = errors.New("there is no such user in the password file")
	ErrUserExists        = errors.New("the password file has this user already")
	ErrLastAdministrator = errors.New("this is the last user in the password file who administers the registry")
	ErrReadOnly          = errors.New("the password file cannot be changed here")
)

const (
	minPassword = 8
	maxName     = 255
)

// Account is a user of the password file.
type Account struct {
	Name          string `json:"name"`
	Disabled      bool   `json:"disabled"`      // can't log in until enabled
	Administrator bool   `json:"administrator"` // of the registry as a whole
}

// Accounts changes the users of a password file. A change counts at once in this process, and within a second
// at other replicas. It is safe for concurrent use, also by several processes.
type Accounts struct {
	Users  *Htpasswd
	Robots *robot.Accounts // nil = there are none
	Rules  func() *access.Rules
	Cost   int // bcrypt cost of new passwords, 0 = DefaultCost
}

// List returns the users by name.
func (a *Accounts) List() ([]Account, error) {
	users := a.Users.file.Get()
	if users == nil {
		return nil, later(oci.CodeUnavailable, NoPasswordFile, credentials{}, "the password file cannot be read")
	}
	return a.list(users), nil
}

func (a *Accounts) list(users *users) []Account {
	all, rules := []Account{}, a.Rules()
	for name := range users.byName {
		all = append(all, Account{Name: name})
	}
	for name := range users.disabled {
		all = append(all, Account{Name: name, Disabled: true})
	}
	for i := range all {
		all[i].Administrator = rules.Administers(&access.Caller{Kind: access.User, Name: all[i].Name}, nil)
	}
	slices.SortFunc(all, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Managed reports whether administrators manage the users. Without access rules nobody is an administrator of the
// others: a user could take over their passwords.
func (a *Accounts) Managed() bool { return a.Rules().Written() }

// ReadOnly returns why the file can't be changed, "" if it can.
func (a *Accounts) ReadOnly() string { return whyReadOnly(a.Users.path) }

// set replaces what the file has after a user's name by what next makes of it, under a lock; "" removes the user. The error is
// ErrUserExists or ErrNoUser unless the user is new as wanted, and ErrLastAdministrator for a change that would leave no administrator.
func (a *Accounts) set(ctx context.Context, name string, isNew bool, next func(now string) (string, error)) error {
	if why := a.ReadOnly(); why != "" {
		return fmt.Errorf("%w: %s", ErrReadOnly, why)
	}
	unlock, err := LockPasswords(ctx, a.Users.path)
	if err != nil {
		return err
	}
	defer unlock()
	content, err := os.ReadFile(a.Users.path)
	if err != nil {
		return err
	}
	_, at, now := withoutUser(content, name)
	switch found := at >= 0; {
	case found && isNew:
		return ErrUserExists
	case !found && !isNew:
		return ErrNoUser
	}
	hash, err := next(now)
	if err != nil {
		return err
	}
	changed, err := SetHash(content, name, hash)
	if err != nil {
		return err
	}
	if a.administered(content) && !a.administered(changed) {
		return ErrLastAdministrator
	}
	if err := ReplacePasswords(a.Users.path, changed); err != nil {
		return err
	}
	return a.Users.Reload()
}

// administered reports whether a user of the file administers the registry.
func (a *Accounts) administered(content []byte) bool {
	return slices.ContainsFunc(a.list(parseUsers(content)), func(u Account) bool { return u.Administrator && !u.Disabled })
}

// Create adds a user; "" makes a password, which it returns. Robots of an earlier user of the name are
// stopped first.
func (a *Accounts) Create(ctx context.Context, name, password string) (secret string, err error) {
	err = checkUser(name)
	switch {
	case len(name) > maxName || strings.Contains(name, "/"):
		err = fmt.Errorf("the name must have at most %d bytes and no slash", maxName)
	case strings.HasPrefix(name, robot.UserPrefix), strings.HasPrefix(name, PersonPrefix), name == WorkloadUser:
		err = errors.New("names that begin with robot+ or oidc+ belong to robots and people of an identity provider, and oidc to pipelines")
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	secret, hash, err := a.newPassword(password)
	if err != nil {
		return "", err
	}
	return secret, a.set(ctx, name, true, func(string) (string, error) { return hash, a.stopRobots(ctx, name) })
}

func (a *Accounts) stopRobots(ctx context.Context, user string) error {
	if a.Robots == nil {
		return nil
	}
	all, err := a.Robots.List(ctx)
	for _, r := range all {
		if maker := access.ParseCaller(r.CreatedBy); err == nil && r.CreatedBy != "" && maker.Kind == access.User && maker.Name == user && !r.Orphaned {
			_, err = a.Robots.Orphan(ctx, r.Name)
		}
	}
	return err
}

// newPassword checks a password, or makes one that it returns, and hashes it.
func (a *Accounts) newPassword(password string) (secret, hash string, err error) {
	if password == "" {
		secret = rand.Text()
		password = secret
	}
	if len(password) < minPassword {
		return "", "", fmt.Errorf("%w: the password is shorter than %d characters", ErrInvalid, minPassword)
	}
	if hash, err = HashPassword(password, cmp.Or(a.Cost, DefaultCost)); err != nil {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return secret, hash, err
}

// SetDisabled keeps a user from logging in with the password, personal access tokens and robots, or lets them again. Sessions end for good.
func (a *Accounts) SetDisabled(ctx context.Context, name string, disabled bool) error {
	return a.set(ctx, name, false, func(now string) (string, error) {
		last, is := strings.CutPrefix(now, disabledPrefix)
		switch {
		case last == "" && !disabled:
			return "", fmt.Errorf("%w: the user has no password: reset it first", ErrInvalid)
		case is == disabled:
			return now, nil
		case disabled:
			return disabledPrefix + now, nil
		}
		return respelled(last), nil
	})
}

// Reset gives a user another password, which it returns. It ends the user's sessions and personal access tokens. A disabled user
// stays disabled.
func (a *Accounts) Reset(ctx context.Context, name string) (secret string, err error) {
	secret, hash, err := a.newPassword("")
	if err != nil {
		return "", err
	}
	return secret, a.set(ctx, name, false, func(now string) (string, error) {
		if strings.HasPrefix(now, disabledPrefix) {
			return disabledPrefix + hash, nil
		}
		return hash, nil
	})
}

// Delete removes a user.
func (a *Accounts) Delete(ctx context.Context, name string) error {
	return a.set(ctx, name, false, func(string) (string, error) { return "", nil })
}

// ChangePassword changes the password of a user, if present is the one in force. Guesses are slowed down as those of
// logins. The error may be a *Refusal.
func (a *Accounts) ChangePassword(r *http.Request, name, present, next string) error {
	if next == "" {
		return fmt.Errorf("%w: the new password is empty", ErrInvalid)
	}
	u, _, err := a.Users.login(r, credentials{[]byte(name), []byte(present)})
	if err != nil {
		return err
	}
	_, hash, err := a.newPassword(next)
	if err != nil {
		return err
	}
	return a.set(r.Context(), name, false, func(now string) (string, error) {
		if stampOf(now) != u.stamp {
			return "", ErrNoUser // changed meanwhile
		}
		return hash, nil
	})
}
