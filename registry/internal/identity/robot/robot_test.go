package robot

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/sharedstate"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func open(store storage.Store) *Accounts { return New(store, zap.NewNop()) }

func example(name string) Robot {
	return Robot{Name: name, Repositories: []string{"team/**"}, Allow: []string{"push"}, Note: "for tests"}
}

func TestCreate_ShowsTheSecretOnceAndKeepsAHash(t *testing.T) {
	store := memory.New()
	a := open(store)
	secret, err := a.Create(t.Context(), example("ci"))
	if err != nil {
		t.Fatal(err)
	}
	content, _, err := storage.Read(t.Context(), store, layout.Robots+"/ci", 1<<20)
	if err != nil || strings.Contains(string(content), strings.TrimPrefix(secret, secretPrefix)) {
		t.Errorf("the storage holds the secret: %s, %v", content, err)
	}
	list, err := a.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "ci" || list[0].Note != "for tests" || list[0].Created.IsZero() {
		t.Errorf("list: %+v, %v", list, err)
	}
	account, err := a.Login(t.Context(), "ci", []byte(secret))
	if err != nil || account.ID == "" || len(account.Own) != 1 || account.Own[0].Rights != access.Push|access.Pull {
		t.Errorf("login: %+v, %v", account, err)
	}
	for name, wrong := range map[string]string{"ci": secret + "x", "other": secret} {
		if _, err := a.Login(t.Context(), name, []byte(wrong)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Create(t.Context(), example("ci")); !errors.Is(err, ErrExists) {
		t.Errorf("a second one of that name: %v", err)
	}
	if err := a.Revoke(t.Context(), "nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("revoke of nobody: %v", err)
	}
}

// Older versions kept patterns that match nothing; the others of the robot hold.
func TestGrant_PatternThatMatchesNothing(t *testing.T) {
	old := Robot{Name: "ci", Repositories: []string{"/web/**", "team/**"}, Allow: []string{"push"}}
	grant, err := old.Grant()
	if err != nil || !grant.Repositories.Match("team/app") || grant.Repositories.Match("web/app") {
		t.Errorf("%+v, %v", grant, err)
	}
	if _, err := open(memory.New()).Create(t.Context(), old); err == nil || !strings.Contains(err.Error(), "write web/**") {
		t.Errorf("a new one: %v", err)
	}
	old.Repositories = []string{"Web/**"}
	if _, err := old.Grant(); err == nil {
		t.Error("what is no pattern is left out")
	}
}

func TestCreate_Refuses(t *testing.T) {
	a := open(memory.New())
	for what, change := range map[string]func(*Robot){
		"no name":              func(r *Robot) { r.Name = "" },
		"capitals":             func(r *Robot) { r.Name = "CI" },
		"a slash":              func(r *Robot) { r.Name = "a/b" },
		"a colon":              func(r *Robot) { r.Name = "a:b" },
		"a long name":          func(r *Robot) { r.Name = strings.Repeat("a", 101) },
		"no repositories":      func(r *Robot) { r.Repositories = nil },
		"no pattern":           func(r *Robot) { r.Repositories = []string{"A"} },
		"no rights":            func(r *Robot) { r.Allow = nil }, // but repositories
		"a right that is none": func(r *Robot) { r.Allow = []string{"fetch"} },
		"an end in the past":   func(r *Robot) { r.Expires = time.Now().Add(-time.Second) },
		"a long note":          func(r *Robot) { r.Note = strings.Repeat("a", maxNote+1) },
	} {
		r := example("ci")
		change(&r)
		if _, err := a.Create(t.Context(), r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A replica finds a new robot, refuses a revoked one and accepts a new secret without any notification.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		one, two := open(store), open(store)
		login := func(a *Accounts, secret string) (*Account, error) { return a.Login(t.Context(), "ci", []byte(secret)) }
		if _, err := login(two, "guess"); !errors.Is(err, ErrUnknown) {
			t.Errorf("before there is one: %v", err)
		}
		first, err := one.Create(t.Context(), example("ci"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := login(two, first); err != nil {
			t.Errorf("a new one at the other replica: %v", err)
		}
		time.Sleep(time.Second) // so long ago was it read
		second, err := one.Rotate(t.Context(), "ci", Maker{})
		if err != nil {
			t.Fatal(err)
		}
		account, err := login(two, second)
		if err != nil {
			t.Fatalf("another secret: %v", err)
		}
		if _, err := login(two, first); !errors.Is(err, ErrUnknown) {
			t.Errorf("the old secret: %v", err)
		}
		if err := one.Revoke(t.Context(), "ci"); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Current(t.Context(), "ci", account.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("where it was revoked: %v", err)
		}
		time.Sleep(sharedstate.Fresh)
		if _, err := two.Current(t.Context(), "ci", account.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("at the other replica: %v", err)
		}
	})
}

func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := open(memory.New())
		r := example("ci")
		r.Expires = time.Now().Add(10 * time.Second)
		secret, err := a.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		account, err := a.Login(t.Context(), "ci", []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := a.Current(t.Context(), "ci", account.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("after its end: %v", err)
		}
		if _, err := a.Create(t.Context(), example("ci")); err != nil {
			t.Errorf("another of the name of one that has expired: %v", err)
		}
		if _, err := a.Current(t.Context(), "ci", account.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("the old one after the new one: %v", err)
		}
	})
}

// No change is lost among replicas that change the robots at the same time.
func TestCreate_Concurrently(t *testing.T) {
	store := memory.New()
	var group sync.WaitGroup
	const each = 5
	for _, prefix := range []string{"a", "b", "c", "d"} {
		accounts := open(store)
		group.Go(func() {
			for i := range each {
				if _, err := accounts.Create(t.Context(), example(prefix+string(rune('0'+i)))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if list, err := open(store).List(t.Context()); err != nil || len(list) != 4*each {
		t.Errorf("%d robots, %v", len(list), err)
	}
}
