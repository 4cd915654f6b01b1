package account

import "time"

// User is a person who manages applications.
type User struct {
	ID        int64
	Name      string
	MatrixID  string
	Admin     bool
	CreatedAt time.Time
}

// UserInput holds what may be set on a user; nil fields keep their value.
type UserInput struct {
	Name     *string
	Password *string
	MatrixID *string
	Admin    *bool
}

// Session is a log-in of the web interface. Only the hash of its token is kept.
type Session struct {
	Token   string // set in the answer of Login only
	UserID  int64
	CSRF    string
	Expires time.Time
}
