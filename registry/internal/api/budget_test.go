package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/oci"
)

// client is whose share a request from an address takes.
func client(address, user string) string {
	r := &request{Request: httptest.NewRequest(http.MethodGet, "/", nil), user: user}
	r.RemoteAddr = address
	return r.client()
}

// Users behind one address have shares of their own.
func TestBudget_ClientIsTheUser(t *testing.T) {
	if client("192.0.2.1:1", "dora") == client("192.0.2.1:1", "carl") || client("192.0.2.1:1", "dora") != client("192.0.2.2:1", "dora") {
		t.Error("users of one address share, or one user has several shares")
	}
}

// A client that holds all of its share waits for itself, and not others for it.
func TestBudget_ShareOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBudget(100, 30)
		var held []func()
		take := func(address string, n int64) error {
			release, err := m.acquire(t.Context(), client(address, ""), n)
			if err == nil {
				held = append(held, release)
			}
			return err
		}
		for range 3 {
			if err := take("192.0.2.1:1000", 10); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		err := take("192.0.2.1:2000", 1)
		var e *oci.Error
		if !errors.As(err, &e) || e.Code != oci.CodeUnavailable || e.RetryAfter == 0 || time.Since(begun) != memoryPatience {
			t.Errorf("beyond the share: %v after %v", err, time.Since(begun))
		}
		for _, address := range []string{"192.0.2.2:1", "[2001:db8::1]:1", "@"} {
			if err := take(address, 1000); address != "@" && err != nil { // a whole share
				t.Errorf("%s: %v", address, err)
			} else if address == "@" && err == nil {
				t.Error("more than all of the memory was given away")
			}
		}
		if err := take("[2001:db8::2]:1", 1); err == nil {
			t.Error("another address of a customer's network has a share of its own")
		}
		time.AfterFunc(time.Second, held[0])
		held = held[1:]
		if err := take("192.0.2.1:3000", 5); err != nil {
			t.Errorf("after a release: %v", err)
		}
		for _, release := range held {
			release()
		}
		if len(m.clients) != 0 || !m.all.TryAcquire(100) {
			t.Errorf("%d clients are left, or room isn't given back", len(m.clients))
		}
	})
}
