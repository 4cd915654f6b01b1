package client

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/api"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

func newSetup(t *testing.T) (*ApplicationSetup, *service.Service, account.Principal, *relaytest.Homeserver) {
	t.Helper()
	s, hs := relaytest.New(t, nil)
	admin, err := s.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	handler := InProcess{Handler: api.New(api.Options{Service: s})}
	secrets, err := OpenSecrets(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = secrets.Close() })
	return &ApplicationSetup{
		Name: "registry", Admin: relaytest.AdminName, Person: relaytest.AdminMatrixID, Secrets: secrets, Registry: secrets,
		Relay: &Client{Name: relaytest.AdminName, Password: relaytest.AdminPassword, HTTP: &http.Client{Transport: handler}},
		Say:   func(string, ...any) {},
	}, s, admin, hs
}

// An application of somebody else's that has the name keeps its token.
func TestApplication_OfSomebodyElse_IsLeftAlone(t *testing.T) {
	a, s, admin, hs := newSetup(t)
	hs.Has(matrix.RoomInfo{RoomID: "!his:example.org", Joined: true, Writable: true})
	name, password := "bob", "password of bob"
	if _, err := s.CreateUser(t.Context(), admin, account.UserInput{Name: &name, Password: &password}); err != nil {
		t.Fatal(err)
	}
	bob, err := s.Authenticate(t.Context(), name, password, "test")
	if err != nil {
		t.Fatal(err)
	}
	his, err := s.CreateApplication(t.Context(), bob, account.ApplicationInput{Name: &a.Name})
	if err != nil {
		t.Fatal(err)
	}
	hisID := his.Application.ID
	first, err := a.application(t.Context())
	if err != nil || first.Owner != relaytest.AdminName || first.ID == hisID {
		t.Errorf("the application is %+v, %v", first, err)
	}
	if _, err := s.TokenViewer(t.Context(), his.Token); err != nil {
		t.Errorf("bob's token: %v", err)
	}
	if again, err := a.application(t.Context()); err != nil || again.ID != first.ID {
		t.Errorf("the second time it is %+v, %v", again, err)
	}
	// What the administrator has given away since is still the one.
	other := "his"
	if _, err := s.UpdateApplication(t.Context(), bob, hisID, account.ApplicationInput{Name: &other}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdateApplication(t.Context(), admin, first.ID, account.ApplicationInput{OwnerID: &bob.UserID}); err != nil {
		t.Fatal(err)
	}
	if again, err := a.application(t.Context()); err != nil || again.ID != first.ID {
		t.Errorf("given away, it is %+v, %v", again, err)
	}
}

// A room that cannot be made yet is tried again, however long that takes; what is refused for good is said soon.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s, admin, hs := newSetup(t)
		hs.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver is not available"})
		app, err := a.application(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 3*refusedFor)
		defer cancel()
		if _, err := a.room(short, app); err == nil || !strings.Contains(err.Error(), "in time") {
			t.Errorf("while the homeserver is away: %v", err)
		}
		hs.Fail(&matrix.SendError{Class: matrix.ClassBlock, Reason: "the owner's Matrix ID is wrong"})
		began := time.Now()
		if _, err := a.room(t.Context(), app); err == nil || !strings.Contains(err.Error(), "Matrix ID is wrong") || time.Since(began) > 2*refusedFor {
			t.Errorf("a refusal: %v after %v", err, time.Since(began))
		}
		time.AfterFunc(100*time.Millisecond, func() { hs.Fail(nil) })
		room, err := a.room(t.Context(), app)
		apps, listErr := s.Applications(t.Context(), admin)
		if err != nil || listErr != nil || room == "" || apps[0].RoomID != room {
			t.Errorf("room %q, %v; applications %+v, %v", room, err, apps, listErr)
		}
	})
}
