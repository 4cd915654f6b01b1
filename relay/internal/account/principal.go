package account

import (
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Principal identifies the authenticated caller: a user or an application. The zero Principal may see nothing.
type Principal struct {
	UserID        int64
	Name          string
	Admin         bool
	ApplicationID int64 // set for an application: it sees its own messages only
	ClientID      int64 // set for a client: it reads what the user's own applications send, sends for them, and manages nothing
}

// Sees reports whether p may see an application and its messages.
func (p Principal) Sees(app *store.Application) bool {
	if p.ApplicationID != 0 {
		return p.ApplicationID == app.ID
	}
	if p.ClientID != 0 {
		return p.UserID == app.OwnerID
	}
	return p.UserID != 0 && (p.Admin || p.UserID == app.OwnerID)
}

// MustAdmin refuses principals other than administrators.
func (p Principal) MustAdmin() error {
	if p.UserID == 0 || !p.Admin {
		return refusal.Forbidden("Only administrators may do this.")
	}
	return nil
}
