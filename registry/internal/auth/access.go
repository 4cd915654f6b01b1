// Package auth decides who may do what. It reads credentials from requests and
// answers with a grant or with an error that carries what the client is told.
package auth

import (
	"time"

	"slipway/registry/internal/oci"
)

// Action is what a route does, and so the permission that it needs.
type Action uint8

// The actions. Ping needs valid credentials and nothing else: it is what
// `docker login` tries them on.
const (
	Ping Action = iota + 1
	Pull
	Push
	Delete
	Catalog
)

// Access is what a request wants.
type Access struct {
	Action     Action
	Repository oci.Name // "" for Ping and Catalog
	From       oci.Name // the repository that a mount takes from, "" without one
}

// Grant says who may do what was asked.
type Grant struct {
	User  string // "" is anonymous
	Fresh bool   // the password was just compared, not remembered: worth a line in the log
}

// Record names one permission in the detail of a 401, with the names that CNCF
// distribution gives them.
type Record struct {
	Type   string
	Class  string
	Name   string
	Action string
}

// Reason says why credentials were not accepted. It is a closed set, fit for a
// metric's label and the log, and nothing that a client is told.
type Reason string

// The reasons.
const (
	NoCredentials  Reason = "no credentials"
	BadHeader      Reason = "malformed authorization header"
	UnknownUser    Reason = "unknown user"
	WrongPassword  Reason = "wrong password"
	TooManyLogins  Reason = "too many logins at once"
	NoPasswordFile Reason = "the password file cannot be read"
)

// Refusal is the error of a request that may not pass. It unwraps to the
// *oci.Error for the body of the answer.
type Refusal struct {
	Reason Reason
	User   string // as the client named itself; may be anybody's text

	// Challenge is the value of WWW-Authenticate, "" if the answer is no 401.
	Challenge string

	// RetryAfter is set when the client should try again later.
	RetryAfter time.Duration

	Err *oci.Error
}

// Error is the form for logs.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Err.Error() }

// Unwrap returns what the client is told.
func (r *Refusal) Unwrap() error { return r.Err }

// records lists the permissions that an access needs, in the order of CNCF
// distribution's answers.
func (a Access) records() []Record {
	var rs []Record
	repo := func(n oci.Name, action string) {
		rs = append(rs, Record{Type: "repository", Name: string(n), Action: action})
	}
	switch a.Action {
	case Pull:
		repo(a.Repository, "pull")
	case Push:
		repo(a.Repository, "pull")
		repo(a.Repository, "push")
	case Delete:
		repo(a.Repository, "delete")
	case Catalog:
		rs = append(rs, Record{Type: "registry", Name: "catalog", Action: "*"})
	case Ping:
	}
	if a.From != "" {
		repo(a.From, "pull")
	}
	return rs
}
