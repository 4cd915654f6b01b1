package auth

import (
	"bytes"
	"errors"
	"net/http"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/robot"
)

// Logins are those who log in with a name and a secret: users of the password file
// and robots, and workloads at the token service only. Any may be nil.
type Logins struct {
	Htpasswd  *Htpasswd
	Robots    *robot.Accounts
	Workloads *Workloads
}

// proven is a caller whose secret was right.
type proven struct {
	caller access.Caller
	stamp  string // ties a token to the credential that was proven, and to no later one
	fresh  bool   // it was compared just now
}

// login returns who has that name and secret. The error is a *Refusal, or the context's
// when the client hung up.
func (l *Logins) login(r *http.Request, c credentials) (p proven, err error) {
	if bytes.HasPrefix(c.user, []byte(robot.UserPrefix)) && l.Robots != nil {
		who := access.Caller{Kind: access.Robot, Name: string(c.user[len(robot.UserPrefix):])}
		id, own, err := l.Robots.Login(who.Name, c.password)
		who.Own = own
		return proven{who, id, false}, robotRefusal(who.String(), err)
	}
	if l.Htpasswd == nil {
		return p, &Refusal{Reason: UnknownUser, User: string(c.user)}
	}
	u, fresh, err := l.Htpasswd.login(r, c)
	return proven{access.Caller{Kind: access.User, Name: u.name}, u.stamp, fresh}, err
}

// current returns who a token was issued for, with the rights of now. The error is a
// *Refusal if its credential has changed or is gone.
func (l *Logins) current(kind access.Kind, name, stamp string) (access.Caller, error) {
	who := access.Caller{Kind: kind, Name: name}
	switch {
	case kind == access.User && l.Htpasswd != nil:
		now, err := l.Htpasswd.stamp(name)
		if err == nil && (now == "" || now != stamp) {
			err = &Refusal{Reason: RevokedToken, User: name}
		}
		return who, err
	case kind == access.Robot && l.Robots != nil:
		own, err := l.Robots.Rights(name, stamp)
		who.Own = own
		if errors.Is(err, robot.ErrUnknown) {
			err = &Refusal{Reason: RevokedToken, User: who.String()}
		}
		return who, robotRefusal(who.String(), err)
	case kind == access.Workload && l.Workloads != nil:
		own, ok := l.Workloads.rights(name, stamp)
		if who.Own = own; !ok {
			return who, &Refusal{Reason: RevokedToken, User: who.String()}
		}
		return who, nil
	default:
		return who, &Refusal{Reason: RevokedToken, User: who.String()}
	}
}

// robotRefusal is what becomes of an error of package robot.
func robotRefusal(user string, err error) error {
	switch {
	case errors.Is(err, robot.ErrUnknown):
		return &Refusal{Reason: UnknownRobot, User: user}
	case errors.Is(err, robot.ErrStale):
		return &Refusal{Reason: RobotsUnread, User: user, RetryAfter: retryAfter, Err: oci.NewError(oci.CodeUnavailable, "robots cannot log in at the moment")}
	default:
		return err
	}
}
