// Package relaytest makes a relay with a scripted homeserver, for the tests of its packages.
package relaytest

import (
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/service"
)

// The administrator of the services that New makes.
const (
	AdminName     = "admin"
	AdminPassword = "correct horse"
	AdminMatrixID = "@admin:example.org"
)

// New makes a service that delivers until the test ends. It returns once the homeserver has answered, unless change, which adjusts the
// options and may be nil, makes the homeserver fail.
func New(t testing.TB, change func(*service.Options)) (*service.Service, *Homeserver) {
	t.Helper()
	r := NewRig(t, func(o *service.Options) {
		o.Accounts.Admin, o.Delivery.Format = account.Admin{Name: AdminName, Password: AdminPassword, MatrixID: AdminMatrixID}, format.Options{}
		if change != nil {
			change(o)
		}
	})
	r.HS.Strict = true
	r.Start()
	r.Eventually("it delivers", func() bool { return r.Paused() == "" || r.HS.failing() })
	return r.Service, r.HS
}
