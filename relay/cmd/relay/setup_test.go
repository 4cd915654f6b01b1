package main

import (
	"net/http"
	"testing"

	"slipway/relay/internal/config"
	"slipway/relay/internal/setup"
)

// TestSetupLeavesOthersAlone: an application of somebody else's that has the name keeps
// its token.
func TestSetupLeavesOthersAlone(t *testing.T) {
	d := newDesk(t)
	cfg, _, err := config.Load(d.file, []string{"MATRIX_PASSWORD=bot-secret", "ADMIN_PASSWORD=admin-secret"})
	if err != nil {
		t.Fatal(err)
	}
	admin := &remote{base: "http://relay", name: cfg.Admin.Name, password: cfg.Admin.Password.Reveal(), client: &http.Client{}}
	if err := admin.openHere(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.close() }()
	ask := func(r *remote, path string, in, out any) {
		t.Helper()
		if _, err := r.do(t.Context(), http.MethodPost, path, in, out); err != nil {
			t.Fatal(err)
		}
	}
	bob := &remote{base: admin.base, name: "bob", password: "password of bob", client: admin.client}
	ask(admin, "/user", map[string]any{"name": bob.name, "password": bob.password}, nil)
	var his application
	ask(bob, "/application", map[string]any{"name": "registry", "room_id": "!his:example.org"}, &his)

	secrets, err := setup.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = secrets.Close() }()
	a := &applicationSetup{o: setupOptions{app: "registry"}, cfg: cfg, secrets: secrets, registry: secrets, remote: admin, say: func(string, ...any) {}}
	first, err := a.application(t.Context())
	if err != nil || first.Owner != cfg.Admin.Name || first.ID == his.ID {
		t.Errorf("the application is %+v, %v", first, err)
	}
	sender := &remote{base: admin.base, token: his.Token, client: admin.client}
	if _, err := sender.do(t.Context(), http.MethodGet, "/message?limit=1", nil, nil); err != nil {
		t.Errorf("bob's token: %v", err)
	}
	if again, err := a.application(t.Context()); err != nil || again.ID != first.ID {
		t.Errorf("the second time it is %+v, %v", again, err)
	}
	// What the administrator has given away since is still the one.
	put := func(path string, in map[string]any) {
		t.Helper()
		if _, err := admin.do(t.Context(), http.MethodPut, path, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	put("/application/1", map[string]any{"name": "his"})
	put("/application/2", map[string]any{"owner_id": 2})
	if again, err := a.application(t.Context()); err != nil || again.ID != first.ID {
		t.Errorf("given away, it is %+v, %v", again, err)
	}
}
