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
	add := func(name string, disabled bool) {
		who := access.Caller{Kind: access.User, Name: name}
		all = append(all, Account{name, disabled, rules.Administers(&who, nil)})
	}
	for name := range users.byName {
		add(name, false)
	}
	for name := range users.disabled {
		add(name, true)
	}
	slices.SortFunc(all, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Managed reports whether administrators manage the users. Without access rules nobody is an administrator of the
// others: a user could take over their passwords.
func (a *Accounts) Managed() bool { return a.Rules().Written() }

// ReadOnly returns why the file can't be changed, "" if it can.
func (a *Accounts) ReadOnly() string { return whyReadOnly(a.Users.path) }

// change replaces the file by what edit makes of it, under a lock. The error of a change that would leave
// no administrator is ErrLastAdministrator.
func (a *Accounts) change(ctx context.Context, edit func(now *users, content []byte) ([]byte, error)) error {
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
	before := parseUsers(content)
	if content, err = edit(before, content); err != nil {
		return err
	}
	if a.administrators(before) > 0 && a.administrators(parseUsers(content)) == 0 {
		return ErrLastAdministrator
	}
	if err := ReplacePasswords(a.Users.path, content); err != nil {
		return err
	}
	return a.Users.Reload()
}

func (a *Accounts) administrators(of *users) (n int) {
	for _, account := range a.list(of) {
		if account.Administrator && !account.Disabled {
			n++
		}
	}
	return n
}

// Create adds a user; "" makes a password, which it returns. Robots of an earlier user of the name are
// stopped first.
func (a *Accounts) Create(ctx context.Context, name, password string) (secret string, err error) {
	switch err := checkUser(name); {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	case len(name) > maxName:
		return "", fmt.Errorf("%w: the name is longer than %d bytes", ErrInvalid, maxName)
	case strings.Contains(name, "/"):
		return "", fmt.Errorf("%w: the name must not contain a slash", ErrInvalid)
	case strings.HasPrefix(name, robot.UserPrefix), strings.HasPrefix(name, PersonPrefix), name == WorkloadUser:
		return "", fmt.Errorf("%w: names that begin with robot+ or oidc+ belong to robots and people of an identity provider, and oidc to pipelines", ErrInvalid)
	}
	secret, hash, err := a.newPassword(password)
	if err != nil {
		return "", err
	}
	return secret, a.change(ctx, func(now *users, content []byte) ([]byte, error) {
		if now.names(name) {
			return nil, ErrUserExists
		}
		if err := a.stopRobots(ctx, name); err != nil {
			return nil, err
		}
		return SetHash(content, name, hash)
	})
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
	return a.change(ctx, func(now *users, content []byte) ([]byte, error) {
		u, enabled := now.byName[name]
		last, is := now.disabled[name]
		switch {
		case !enabled && !is:
			return nil, ErrNoUser
		case is == disabled:
			return content, nil
		case disabled:
			return SetHash(content, name, disabledPrefix+u.hash)
		case last == "":
			return nil, fmt.Errorf("%w: the user has no password: reset it first", ErrInvalid)
		}
		return SetHash(content, name, respelled(last))
	})
}

// Reset gives a user another password, which it returns. It ends the user's sessions and personal access tokens. A disabled user
// stays disabled.
func (a *Accounts) Reset(ctx context.Context, name string) (secret string, err error) {
	secret, hash, err := a.newPassword("")
	if err != nil {
		return "", err
	}
	return secret, a.change(ctx, func(now *users, content []byte) ([]byte, error) {
		if !now.names(name) {
			return nil, ErrNoUser
		}
		if now.isDisabled(name) {
			return SetHash(content, name, disabledPrefix+hash)
		}
		return SetHash(content, name, hash)
	})
}

// Delete removes a user.
func (a *Accounts) Delete(ctx context.Context, name string) error {
	return a.change(ctx, func(_ *users, content []byte) ([]byte, error) {
		rest, found := RemoveUser(content, name)
		if !found {
			return nil, ErrNoUser
		}
		return rest, nil
	})
}

// ChangePassword changes the password of a user, if present is the one in force. Guesses are slowed down as those of
// logins. The error may be a *Refusal.
func (a *Accounts) ChangePassword(r *http.Request, name, present, next string) error {
	if next == "" {
		return fmt.Errorf("%w: the new password is empty", ErrInvalid)
	}
	if len(name)+len(present) > maxCredentials {
		return &Refusal{Reason: WrongPassword, User: name}
	}
	u, _, err := a.Users.login(r, credentials{[]byte(name), []byte(present)})
	if err != nil {
		return err
	}
	_, hash, err := a.newPassword(next)
	if err != nil {
		return err
	}
	return a.change(r.Context(), func(now *users, content []byte) ([]byte, error) {
		if now.byName[name].stamp != u.stamp {
			return nil, ErrNoUser // changed meanwhile
		}
		return SetHash(content, name, hash)
	})
}
