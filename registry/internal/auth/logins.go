package auth

import (
	"errors"
	"net/http"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/robot"
)

// Logins are those who log in with a name and a secret: users of the password file
// and robots. Either may be nil.
type Logins struct {
	Htpasswd *Htpasswd
	Robots   *robot.Accounts
}

// login returns who has that name and secret, and whether the secret was checked just
// now. The error is a *Refusal, or the context's when the client hung up.
func (l *Logins) login(r *http.Request, c credentials) (who access.Caller, fresh bool, err error) {
	if name, ok := strings.CutPrefix(string(c.user), robot.UserPrefix); ok && l.Robots != nil {
		_, own, err := l.Robots.Login(name, c.password)
		return access.Caller{Kind: access.Robot, Name: name, Own: own}, false, robotRefusal(string(c.user), err)
	}
	if l.Htpasswd == nil {
		return who, false, &Refusal{Reason: UnknownUser, User: string(c.user)}
	}
	fresh, err = l.Htpasswd.login(r, c)
	return access.Caller{Kind: access.User, Name: string(c.user)}, fresh, err
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
