// Package token reads, verifies and signs the bearer tokens of registries: JSON
// web tokens as the Docker token specification has them. It knows neither HTTP
// nor what a caller may do.
package token

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
)

// Claims are the contents of a token.
type Claims struct {
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  Audience         `json:"aud"`
	Expires   *jwt.NumericDate `json:"exp"`
	NotBefore *jwt.NumericDate `json:"nbf,omitempty"`
	IssuedAt  *jwt.NumericDate `json:"iat,omitempty"`
	ID        string           `json:"jti,omitempty"`
	Access    []Scope          `json:"access"`

	// Own holds the additional claims of a token of this registry's own service.
	Own *Own `json:"slipway,omitempty"`
}

// Own ties a token to the credential that it was issued for, so that it ends with
// that.
type Own struct {
	Kind  string `json:"kind"`            // of the caller
	Stamp string `json:"stamp,omitempty"` // changes when the credential does
}

// Scope holds the actions that a token allows on one resource.
type Scope struct {
	Type    string   `json:"type"`
	Class   string   `json:"class,omitempty"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// Covers reports whether the token allows the action; "*" among its actions stands
// for all.
func (c *Claims) Covers(typ, name, action string) bool {
	for i := range c.Access {
		s := &c.Access[i]
		if s.Type == typ && s.Name == name && (slices.Contains(s.Actions, action) || slices.Contains(s.Actions, "*")) {
			return true
		}
	}
	return false
}

// Audience is one name or several.
type Audience []string

// UnmarshalJSON takes a string as a list of one.
func (a *Audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = Audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// MarshalJSON writes one name as a string, which is all that distribution 2.8
// reads.
func (a Audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

// At is t as a claim.
func At(t time.Time) *jwt.NumericDate { return jwt.NewNumericDate(t) }
