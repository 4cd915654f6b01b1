package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
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
	if client("[2001:db8::1]:1", "") != client("[2001:db8::2]:1", "") || client("192.0.2.1:1", "") == client("192.0.2.2:1", "") {
		t.Error("addresses of a customer's network have shares of their own, or networks share")
	}
}
