package account

import "slipway/relay/internal/refusal"

// Principal identifies the authenticated caller: a user or an application. The zero Principal may see nothing.
type Principal struct {
	UserID        int64
	Name          string
	Admin         bool
	ApplicationID int64 // set for an application: it sees its own messages only
	OwnerID       int64 // of that application
	ClientID      int64 // set for a client: it reads what the user's own applications send, sends for them, and manages nothing
}

// Sees reports whether p may see an application and its messages.
func (p Principal) Sees(application, owner int64) bool {
	if p.ApplicationID != 0 {
		return p.ApplicationID == application
	}
	if p.ClientID != 0 {
		return p.UserID == owner
	}
	return p.UserID != 0 && (p.Admin || p.UserID == owner)
}

// MustAdmin refuses principals other than administrators.
func (p Principal) MustAdmin() error {
	if p.UserID == 0 || !p.Admin {
		return refusal.Forbidden("Only administrators may do this.")
	}
	return nil
}
