package personal

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/sharedstate"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func TestTokens(t *testing.T) {
	store := memory.New()
	a, b := New(store, "provider"), New(store, "provider") // two replicas
	ctx := t.Context()
	until := time.Now().Add(24 * time.Hour)
	secret, err := a.Create(ctx, "alice", Token{Note: "laptop", Allow: []string{"push"}, Expires: until})
	if err != nil {
		t.Fatal(err)
	}
	token, err := b.Login(ctx, "alice", secret)
	if err != nil || token.Note != "laptop" || token.Only() != access.Push|access.Pull {
		t.Errorf("the token is %+v, %v", token, err)
	}
	if b.LastUsed(token.ID).IsZero() || !a.LastUsed(token.ID).IsZero() {
		t.Error("the last use is not that of the process")
	}
	for what, login := range map[string][2]string{
		"another owner": {"bob", secret}, "another secret": {"alice", secret[:len(secret)-1] + "x"}, "another id": {"alice", Prefix + "0123456789abcdef_" + strings.Repeat("0", 64)},
		"a path": {"alice", Prefix + "../../x_y"}, "nothing": {"alice", Prefix}, "no prefix": {"alice", "_"},
	} {
		if _, err := b.Login(ctx, login[0], login[1]); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	list, err := b.List(ctx, "alice")
	if err != nil || len(list) != 1 || list[0].ID != token.ID {
		t.Errorf("the list is %+v, %v", list, err)
	}
	for info, err := range store.List(ctx, layout.People, storage.ListOptions{Flat: true}) {
		if err != nil {
			t.Fatal(err)
		}
		content, _, err := storage.Read(ctx, store, info.Key, sharedstate.MaxRecord)
		if err != nil || strings.Contains(string(content), secret) || strings.Contains(string(content), strings.SplitN(secret, "_", 4)[3]) {
			t.Errorf("the secret is stored: %s, %v", content, err)
		}
	}
	if err := b.Revoke(ctx, "bob", token.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("somebody else revokes it: %v", err)
	}
	if err := b.Revoke(ctx, "alice", token.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Login(ctx, "alice", secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("a revoked token: %v", err)
	}
	for deadline := time.Now().Add(20 * sharedstate.Fresh); ; time.Sleep(sharedstate.Fresh / 20) {
		if _, err := a.Current(ctx, "alice", token.ID); errors.Is(err, ErrUnknown) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("another replica accepts a revoked token")
		}
	}
}

func TestCreate_Refuses(t *testing.T) {
	tokens := New(memory.New(), "")
	day := time.Now().Add(24 * time.Hour)
	for what, token := range map[string]Token{
		"expired": {Expires: time.Now().Add(-time.Hour)}, "never": {}, "too late": {Expires: time.Now().Add(MaxLifetime + time.Hour)},
		"no right": {Expires: day, Allow: []string{"fly"}}, "long": {Expires: day, Note: strings.Repeat("x", maxNote+1)},
	} {
		if _, err := tokens.Create(t.Context(), "alice", token); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range maxTokens {
		if _, err := tokens.Create(t.Context(), "alice", Token{Expires: day}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tokens.Create(t.Context(), "alice", Token{Expires: day}); !errors.Is(err, ErrInvalid) {
		t.Errorf("one too many: %v", err)
	}
}

func TestGroups(t *testing.T) {
	store := memory.New()
	tokens := New(store, "provider")
	if _, err := tokens.Person(t.Context(), "oidc:alice"); !errors.Is(err, ErrUnknown) {
		t.Errorf("groups of nobody: %v", err)
	}
	for _, groups := range [][]string{{"dev", "ops"}, {"ops"}, nil} {
		if _, err := tokens.SetGroups(t.Context(), "oidc:alice", "subject", groups, len(groups) == 1); err != nil {
			t.Fatal(err)
		}
		if got, err := tokens.Person(t.Context(), "oidc:alice"); err != nil || !slices.Equal(got.Groups, groups) || got.More != (len(groups) == 1) {
			t.Errorf("groups are %v, %v, want %v", got.Groups, err, groups)
		}
	}
	large := slices.Repeat([]string{strings.Repeat("<", 200)}, 1000)
	if _, err := tokens.SetGroups(t.Context(), "oidc:alice", "subject", large, false); err != nil {
		t.Fatal(err)
	}
	if got, err := New(store, "provider").Person(t.Context(), "oidc:alice"); err != nil || len(got.Groups) == 0 || !got.More {
		t.Errorf("of groups that don't fit into a record, %d are left, others may exist: %v, %v", len(got.Groups), got.More, err)
	}
	for _, source := range []string{"another provider", ""} {
		if _, err := New(store, source).Person(t.Context(), "oidc:alice"); !errors.Is(err, ErrUnknown) {
			t.Errorf("the provider is now %q: %v", source, err)
		}
	}
}

// A token whose rights can't be understood, such as one of a newer version, allows nothing: it must
// not be taken for one that allows everything.
func TestTokens_OfUnknownRights(t *testing.T) {
	store := memory.New()
	tokens := New(store, "")
	secret, err := tokens.Create(t.Context(), "alice", Token{Allow: []string{"pull"}, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf("alice", strings.Split(secret, "_")[2])
	content, _, err := storage.Read(t.Context(), store, key, sharedstate.MaxRecord)
	if err != nil {
		t.Fatal(err)
	}
	content = []byte(strings.Replace(string(content), `"pull"`, `"pull-some"`, 1))
	if err := store.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: content}}); err != nil {
		t.Fatal(err)
	}
	if token, err := tokens.Login(t.Context(), "alice", secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("it logs in: %+v, %v", token, err)
	}
}

func TestEverybody(t *testing.T) {
	tokens := New(memory.New(), "provider")
	if all, more, err := tokens.Everybody(t.Context(), 10); err != nil || len(all) > 0 || more {
		t.Errorf("of nobody: %v, %v, %v", all, more, err)
	}
	if _, err := tokens.SetGroups(t.Context(), "oidc:bob", "subject", []string{"dev"}, false); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"oidc:bob", "alice", "oidc:bob"} {
		if _, err := tokens.Create(t.Context(), owner, Token{Expires: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	all, more, err := tokens.Everybody(t.Context(), 3)
	if err != nil || more || len(all) != 3 || all[0].Owner != "alice" || all[1].Owner != "oidc:bob" || all[2].Owner != "oidc:bob" {
		t.Errorf("all tokens are %+v, %v, %v", all, more, err)
	}
	if all, more, err := tokens.Everybody(t.Context(), 2); err != nil || !more || len(all) != 2 {
		t.Errorf("two of three are %+v, %v, %v", all, more, err)
	}
}
