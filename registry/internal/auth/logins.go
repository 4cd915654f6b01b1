package auth

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/sharedstate"
)

// Logins holds the callers that log in with a name and a secret: users of the password file
// and robots, workloads at the token service only, and users and persons by their personal access
// tokens. Any may be nil.
type Logins struct {
	Htpasswd  *Htpasswd
	Robots    *robot.Accounts
	Workloads *Workloads
	People    *personal.Tokens
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
		account, err := l.Robots.Login(r.Context(), who.Name, c.password)
		if err == nil {
			p.stamp = account.ID
			err = l.empower(r.Context(), &who, account, 0)
		}
		p.caller = who
		return p, robotRefusal(who.String(), err)
	}
	if l.People != nil && bytes.HasPrefix(c.password, []byte(personal.Prefix)) {
		return l.loginByToken(r.Context(), c)
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
	ctx := context.Background() // each read is bounded
	who := access.Caller{Kind: kind, Name: name}
	id, byToken := strings.CutPrefix(stamp, tokenStamp)
	switch {
	case byToken && l.People != nil:
		err := l.useToken(ctx, &who, id)
		return who, err
	case kind == access.Person && l.People != nil:
		err := l.addGroups(ctx, &who)
		if err == nil && stamp != loginStamp+who.ID {
			err = &Refusal{Reason: RevokedToken, User: who.String()}
		}
		return who, err
	case kind == access.User && l.Htpasswd != nil:
		now, err := l.Htpasswd.current(name)
		if err == nil && (now.name == "" || now.stamp != stamp) {
			err = &Refusal{Reason: RevokedToken, User: name}
		}
		return who, err
	case kind == access.Robot && l.Robots != nil:
		account, err := l.Robots.Current(ctx, name, stamp)
		if err == nil {
			err = l.empower(ctx, &who, account, 0)
		}
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

// maxMakers bounds how many robots may have made each other in turn.
const maxMakers = 8

// errMakerGone means that a robot's maker, or the token by which the robot was made, can no longer log in.
var errMakerGone = errors.New("its maker is gone")

// gone is errMakerGone with a reason that follows the maker's name.
func gone(account *robot.Account, why string) error {
	return fmt.Errorf("%w: %s %s", errMakerGone, account.CreatedBy, why)
}

// empower sets the ID and the rights of a robot from its account, bounded by those of its maker, who must
// still exist. depth counts the robots that the account has made, directly or not.
func (l *Logins) empower(ctx context.Context, who *access.Caller, account *robot.Account, depth int) error {
	who.Own, who.ID = account.Own, account.Tenure
	if account.CreatedBy == "" {
		return nil
	}
	maker := access.ParseCaller(account.CreatedBy)
	who.Maker = &maker
	if account.Orphaned {
		return gone(account, "was removed, and a later owner of the name does not get the robot; another secret starts it again")
	}
	switch maker.Kind {
	case access.User:
		if l.Htpasswd == nil {
			return gone(account, "has no password file")
		}
		if u, err := l.Htpasswd.current(maker.Name); err != nil || u.name == "" {
			return cmp.Or(err, gone(account, "is not in the password file"))
		}
	case access.Robot:
		parent, err := l.Robots.Find(ctx, maker.Name)
		switch {
		case errors.Is(err, robot.ErrUnknown):
			return gone(account, "was revoked or has expired")
		case err != nil:
			return err
		case parent.Tenure != account.MakerID:
			return gone(account, "is another robot or has another maker by now")
		case depth == maxMakers:
			return gone(account, "is one of too many robots that made each other")
		}
		return l.empower(ctx, &maker, parent, depth+1)
	case access.Workload:
		own, ok := l.Workloads.named(maker.Name)
		if !ok {
			return gone(account, "is not configured")
		}
		maker.Own = own
	case access.Person:
		if err := l.empowerMaker(account, func() error { return l.addGroups(ctx, &maker) }); err != nil {
			return err
		}
		if maker.ID != account.MakerID {
			return gone(account, "is somebody else by now")
		}
	case access.Certificate, access.Anonymous: // the rules alone know them
	}
	if account.Token != "" {
		return l.empowerMaker(account, func() error { return l.useToken(ctx, &maker, account.Token) })
	}
	return nil
}

// empowerMaker calls look, which finds out what the maker may do now, if they still exist.
func (l *Logins) empowerMaker(account *robot.Account, look func() error) error {
	if l.People == nil {
		return gone(account, "cannot be identified, as there are no logins of people")
	}
	err := look()
	if refused := (*Refusal)(nil); errors.As(err, &refused) && refused.Reason == RevokedToken {
		return gone(account, "is unknown, or the personal access token by which the robot was made was revoked or has expired")
	}
	return err
}

// robotRefusal turns an error of package robot into a refusal.
func robotRefusal(user string, err error) error {
	switch {
	case errors.Is(err, robot.ErrUnknown):
		return &Refusal{Reason: UnknownRobot, User: user}
	case errors.Is(err, errMakerGone):
		return &Refusal{Reason: MakerGone, User: user}
	case errors.Is(err, sharedstate.ErrUnread):
		return &Refusal{Reason: RobotsUnread, User: user, Cause: err, RetryAfter: retryAfter, Err: oci.Explain(oci.CodeUnavailable, "robots cannot log in at the moment")}
	default:
		return err
	}
}
