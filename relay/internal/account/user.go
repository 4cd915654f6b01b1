package account

import "time"

// User is a person who manages applications.
type User struct {
	ID        int64
	Name      string
	MatrixID  string
	Admin     bool
	Linked    bool // to a person of the identity provider
	Password  bool // has one
	CreatedAt time.Time
}

// UserInput holds the settings of a user; nil fields keep their value.
type UserInput struct {
	Name     *string
	Password *string
	MatrixID *string
	Admin    *bool
}

// Session is a login to the web interface. Only the hash of its token is stored.
type Session struct {
	Token   string // set when the session begins
	UserID  int64
	CSRF    string
	Expires time.Time
}
