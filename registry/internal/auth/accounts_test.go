package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/robot"
)

// accounts are those of a service; alice administers it.
func accounts(t *testing.T) (*Accounts, *service) {
	t.Helper()
	s := newService(t, allow("alice", "**", "admin"), allow("users", "**", "pull"))
	return &Accounts{Users: s.users.Htpasswd, Robots: s.robots, Rules: func() *access.Rules { return s.rules }, Cost: bcrypt.MinCost}, s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAccounts(t *testing.T) {
	a, s := accounts(t)
	pulls := func(user, password string) bool {
		_, err := s.Authorize(basic(user, password), Access{Action: Pull, Repository: "a"})
		return err == nil
	}
	secret, err := a.Create(t.Context(), "carl", "")
	if must(t, err); !pulls("carl", secret) {
		t.Error("a new user can't log in")
	}
	secret, err = a.Create(t.Context(), "dora", "long enough")
	if must(t, err); secret != "" || !pulls("dora", "long enough") {
		t.Errorf("a chosen password: %q", secret)
	}
	token := s.issue(t, basic("bob", "hidden"), TokenRequest{Scopes: []string{"repository:a:pull"}}).Token
	ci, err := s.robots.Create(t.Context(), robot.Robot{Name: "ci", CreatedBy: "bob", Repositories: []string{"**"}, Allow: []string{"pull"}})
	must(t, err)
	works := func() [3]bool {
		return [3]bool{pulls("bob", "hidden"), s.may(token, Pull, "a"), pulls("robot+ci", ci)}
	}
	if works() != [3]bool{true, true, true} {
		t.Fatal("bob can't log in")
	}
	session, err := s.LogIn(request(""), "bob", "hidden")
	must(t, err)
	bond, err := s.Bond(t.Context(), access.Caller{Kind: access.User, Name: "bob"})
	must(t, err)
	must(t, a.SetDisabled(t.Context(), "bob", true))
	if got := works(); got != [3]bool{} {
		t.Errorf("disabled: password, token, robot: %v", got)
	}
	_, err = s.Authorize(basic("bob", "hidden"), Access{Action: Pull, Repository: "a"})
	if r := refusal(t, err); r.Reason != DisabledUser || r.Err.Text() != wrongCredentials {
		t.Errorf("disabled: %+v", r)
	}
	if _, err := s.robots.Read(t.Context(), "ci"); err != nil || !a.Users.file.Get().names("bob") {
		t.Errorf("the robots of a disabled user are orphaned: %v", err)
	}
	must(t, a.SetDisabled(t.Context(), "bob", false))
	if got := works(); got != [3]bool{true, false, true} {
		t.Errorf("enabled: password, token, robot: %v", got)
	}
	if _, err := s.Resume(request(""), session); err == nil {
		t.Error("a session from before the user was disabled is valid again")
	}
	if now, err := s.Bond(t.Context(), access.Caller{Kind: access.User, Name: "bob"}); err != nil || now != bond {
		t.Errorf("Enable revoked personal access tokens: %v", err)
	}
	secret, err = a.Reset(t.Context(), "bob")
	if must(t, err); works() != [3]bool{false, false, true} || !pulls("bob", secret) {
		t.Errorf("reset: password, token, robot: %v", works())
	}
	must(t, a.ChangePassword(request(""), "bob", secret, "chosen by bob"))
	if pulls("bob", secret) || !pulls("bob", "chosen by bob") {
		t.Error("the own password is not changed")
	}
	must(t, a.SetDisabled(t.Context(), "bob", true))
	secret, err = a.Reset(t.Context(), "bob")
	if must(t, err); pulls("bob", secret) {
		t.Error("a reset enables a user")
	}
	must(t, a.SetDisabled(t.Context(), "bob", false))
	if !pulls("bob", secret) {
		t.Error("the password that was reset doesn't work once the user is enabled")
	}
	must(t, a.Delete(t.Context(), "bob"))
	_, err = a.Create(t.Context(), "bob", "another bob")
	if must(t, err); pulls("robot+ci", ci) {
		t.Error("another user of the name got the robot")
	}
	all, err := a.List()
	if want := []Account{{"alice", false, true}, {"bob", false, false}, {"carl", false, false}, {"dora", false, false}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("list: %v, %v", all, err)
	}
}

func TestAccounts_Refuse(t *testing.T) {
	a, s := accounts(t)
	write(t, s.users.path, line(t, "alice", "secret"), "broken:x\n", "locked:!\n", "empty:\n")
	must(t, a.Users.Reload())
	change := func(name, present, next string) error { return a.ChangePassword(request(""), name, present, next) }
	create := func(name, password string) error {
		_, err := a.Create(t.Context(), name, password)
		return err
	}
	reset := func(name string) error {
		_, err := a.Reset(t.Context(), name)
		return err
	}
	for what, c := range map[string]struct{ got, want error }{
		"the last administrator is disabled": {a.SetDisabled(t.Context(), "alice", true), ErrLastAdministrator},
		"the last administrator is deleted":  {a.Delete(t.Context(), "alice"), ErrLastAdministrator},
		"a user exists":                      {create("alice", "long enough"), ErrUserExists},
		"a broken line":                      {create("broken", "long enough"), ErrUserExists},
		"a disabled user":                    {create("locked", "long enough"), ErrUserExists},
		"no hash to enable":                  {a.SetDisabled(t.Context(), "locked", false), ErrInvalid},
		"nothing to enable":                  {a.SetDisabled(t.Context(), "empty", false), ErrInvalid},
		"73 bytes":                           {create("x", strings.Repeat("p", 73)), ErrInvalid},
		"7 bytes":                            {create("x", "1234567"), ErrInvalid},
		"a zero byte":                        {create("x", "long\x00enough"), ErrInvalid},
		"a colon":                            {create("a:b", ""), ErrInvalid},
		"a slash":                            {create("a/b", ""), ErrInvalid},
		"a line break":                       {create("a\nb", ""), ErrInvalid},
		"a robot":                            {create("robot+x", ""), ErrInvalid},
		"a person":                           {create("oidc+x", ""), ErrInvalid},
		"a long name":                        {create(strings.Repeat("n", 256), ""), ErrInvalid},
		"disable nobody":                     {a.SetDisabled(t.Context(), "x", true), ErrNoUser},
		"enable nobody":                      {a.SetDisabled(t.Context(), "x", false), ErrNoUser},
		"reset nobody":                       {reset("x"), ErrNoUser},
		"delete nobody":                      {a.Delete(t.Context(), "x"), ErrNoUser},
		"an empty new password":              {change("alice", "secret", ""), ErrInvalid},
		"a new password of 73 bytes":         {change("alice", "secret", strings.Repeat("p", 73)), ErrInvalid},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if r := refusal(t, change("alice", "wrong", "long enough")); r.Reason != WrongPassword {
		t.Errorf("wrong present password: %+v", r)
	}
	must(t, reset("broken"))
	must(t, reset("empty"))
	must(t, reset("alice"))
}

// Two processes and the command change one file at the same time, and lose nothing. What a writer that was
// killed has left does no harm.
func TestAccounts_AtTheSameTime(t *testing.T) {
	a, s := accounts(t)
	rest := "# a comment\nno colon\nbroken:x\n"
	write(t, s.users.path, rest, line(t, "alice", "secret"))
	must(t, os.Chmod(s.users.path, 0o640))
	must(t, os.WriteFile(besides(s.users.path, ".new"), []byte("half a li"), 0o600))
	other, err := NewHtpasswd(HtpasswdOptions{Path: s.users.path, Log: zap.NewNop()})
	must(t, err)
	b := &Accounts{Users: other, Rules: a.Rules, Cost: a.Cost}
	var running sync.WaitGroup
	var want []string
	for i := range 12 {
		name := fmt.Sprint("user", i)
		want = append(want, name)
		running.Go(func() {
			var err error
			switch i % 3 {
			case 0:
				_, err = a.Create(t.Context(), name, "long enough")
			case 1:
				_, err = b.Create(t.Context(), name, "long enough")
			default:
				err = edit(t.Context(), s.users.path, name)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	content, err := os.ReadFile(s.users.path)
	must(t, err)
	if !strings.HasPrefix(string(content), rest) {
		t.Errorf("other lines were changed: %s", content)
	}
	got := UserNames(content)
	slices.Sort(got)
	want = append(want, "alice")
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("users are %v, want %v", got, want)
	}
	if info, err := os.Stat(s.users.path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(besides(s.users.path, ".new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// edit adds a user as the command does.
func edit(ctx context.Context, path, name string) error {
	unlock, err := LockPasswords(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	content, err := os.ReadFile(path)
	if err == nil {
		content, err = SetHash(content, name, "$2y$04$NoSuchUserInThisFileNobodyKnowsThePasswordOfThisHash.")
	}
	if err != nil {
		return err
	}
	return ReplacePasswords(path, content)
}

func TestAccounts_LockIsHeld(t *testing.T) {
	a, s := accounts(t)
	unlock, err := LockPasswords(t.Context(), s.users.path)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.SetDisabled(ctx, "bob", true); !errors.Is(err, context.Canceled) {
		t.Errorf("while another process has the lock: %v", err)
	}
	unlock()
	must(t, a.SetDisabled(t.Context(), "bob", true))
}

func TestAccounts_ReadOnly(t *testing.T) {
	a, s := accounts(t)
	if why := a.ReadOnly(); why != "" {
		t.Fatal(why)
	}
	target := filepath.Join(t.TempDir(), "secret")
	must(t, os.Rename(s.users.path, target))
	must(t, os.Symlink(target, s.users.path))
	if why := a.ReadOnly(); !strings.Contains(why, "symbolic link") {
		t.Errorf("a link: %q", why)
	}
	if err := a.SetDisabled(t.Context(), "bob", true); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a change behind a link: %v", err)
	}
	must(t, os.Remove(s.users.path))
	if why := a.ReadOnly(); why == "" {
		t.Error("a missing file is writable")
	}
}
