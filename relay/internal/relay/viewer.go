package relay

// Viewer is who asks: a user, or an application by its token. The zero Viewer may see nothing.
type Viewer struct {
	UserID        int64
	Name          string
	Admin         bool
	ApplicationID int64 // set for an application: it sees its own messages only
}
