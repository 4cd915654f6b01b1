package matrix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/id"
)

// Settings of the client.
const (
	settingSession = "matrix.session"
	settingSync    = "matrix.sync"
)

// noDevice stands for the device of an access token that has none.
const noDevice = "-"

// session is a login. It survives restarts: a new device would make the homeserver forget transaction ids, and homeservers
// limit logins.
type session struct {
	storedSession
	api *mautrix.Client
}

func (c *Client) newSession(userID, deviceID, token string) *session {
	return &session{storedSession{c.base.String(), userID, cmp.Or(deviceID, noDevice), token}, c.api(userID, token)}
}

// storedSession is a session in the database. It has no Token if that is configured or not valid any more, and no DeviceID once the
// device is gone.
type storedSession struct {
	Homeserver string `json:"homeserver"`
	UserID     string `json:"user_id"`
	DeviceID   string `json:"device_id"`
	Token      string `json:"access_token,omitempty"`
}

// loginState spaces out login attempts.
type loginState struct {
	mu       sync.Mutex
	failure  *SendError // of the last login; nil after a success
	next     time.Time  // earliest next attempt
	failures int
}

const (
	minLoginWait = 2 * time.Second
	maxLoginWait = 10 * time.Minute
)

// Device returns the device that sends events, or "" before the first login.
func (c *Client) Device() string {
	if s := c.session.Load(); s != nil {
		return s.DeviceID
	}
	return ""
}

// UserID returns the bot's Matrix ID, or "" before the first login.
func (c *Client) UserID() string {
	if s := c.session.Load(); s != nil {
		return s.UserID
	}
	return ""
}

// current returns the session, or the error of the last login.
func (c *Client) current() (*session, error) {
	if s := c.session.Load(); s != nil {
		return s, nil
	}
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	if c.login.failure != nil {
		return nil, c.login.failure
	}
	return nil, &SendError{Class: ClassRelogin, Reason: "the bot is not logged in yet", Err: ErrNoLogin}
}

// expire drops a session that the homeserver no longer accepts.
func (c *Client) expire(s *session, err error) {
	if !c.session.CompareAndSwap(s, nil) {
		return // another request saw it first
	}
	var why *SendError
	_ = errors.As(err, &why) // call found its class
	c.log.Warn("the homeserver ended the bot's session", zap.String("errcode", why.Code), zap.Bool("soft", errors.Is(why.Err, errSoftLogout)))
	kept := s.storedSession
	kept.Token = ""
	if !errors.Is(why.Err, errSoftLogout) { // with it the device lives on (client-server API, soft logout)
		kept.DeviceID = ""
	}
	c.login.mu.Lock()
	c.login.failure = why
	c.login.mu.Unlock()
	if c.delivers() {
		if err := c.saveSession(context.Background(), kept); err != nil {
			c.log.Error("the session cannot be stored", zap.Error(err))
		}
	}
	select {
	case c.expired <- struct{}{}:
	default:
	}
}

// connect ensures that there is a session: the current one, the stored one, or a new login. It returns the last error while a
// login is backing off.
func (c *Client) connect(ctx context.Context) error {
	if c.session.Load() != nil {
		return nil
	}
	if !c.connecting.TryLock() {
		_, err := c.current()
		return err
	}
	defer c.connecting.Unlock()
	if c.session.Load() != nil {
		return nil
	}
	c.login.mu.Lock()
	early := c.login.failure != nil && time.Now().Before(c.login.next)
	c.login.mu.Unlock()
	if early {
		_, err := c.current()
		return err
	}
	s, err := c.open(ctx)
	if err != nil {
		return c.loginFailed(err)
	}
	c.login.mu.Lock()
	c.login.failure, c.login.failures = nil, 0
	c.login.mu.Unlock()
	c.rooms.forgetChecks()
	c.session.Store(s)
	return nil
}

// loginFailed records the failure and the time of the next attempt.
func (c *Client) loginFailed(err error) error {
	var failed *SendError
	if !errors.As(err, &failed) {
		failed = &SendError{Class: ClassRetry, Reason: "the session cannot be stored", Err: err}
	}
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	first := c.login.failure == nil || c.login.failure.Reason != failed.Reason
	c.login.failure = failed
	c.login.failures++
	c.login.next = time.Now().Add(loginWait(failed, c.login.failures))
	if first {
		c.log.Warn("the bot cannot log in", zap.String("class", string(failed.Class)), zap.String("reason", failed.Error()), zap.String("remedy", failed.Remedy()))
	}
	return failed
}

// loginWait returns the backoff. It is long where only a person can help, and the homeserver's own where that names one.
func loginWait(failed *SendError, failures int) time.Duration {
	switch failed.Class {
	case ClassWait:
		return failed.RetryAfter
	case ClassLocked:
		return backoff(time.Minute, maxLoginWait, failures)
	}
	return backoff(minLoginWait, 30*time.Second, failures)
}

// backoff returns how long to wait after the nth failure: from half of an interval, which doubles from first to longest, to all of it.
func backoff(first, longest time.Duration, n int) time.Duration {
	wait := min(first<<min(n-1, 10), longest)
	return wait/2 + rand.N(wait/2)
}

// open returns a session that the homeserver accepts.
func (c *Client) open(ctx context.Context) (*session, error) {
	kept, err := c.storedSession(ctx)
	if err != nil {
		return nil, err
	}
	if c.options.AccessToken != "" {
		return c.openToken(ctx, kept)
	}
	if kept.Token != "" {
		s, err := c.check(ctx, kept.Token)
		if err == nil && s.UserID == kept.UserID && s.DeviceID == kept.DeviceID {
			return s, nil
		}
		if err != nil && !hasClass(err, ClassRelogin) {
			return nil, err
		}
		if !errors.Is(err, errSoftLogout) {
			kept.DeviceID = "" // gone, or another one's: a new device
		}
	}
	if !c.delivers() {
		return nil, &SendError{Class: ClassRelogin, Reason: "the delivering relay is not logged in yet", Err: ErrNoLogin}
	}
	if err := c.store.Check(ctx); err != nil {
		return nil, err // a login that can't be stored leaves a device that nobody uses again
	}
	return c.logIn(ctx, kept.DeviceID)
}

// storedSession returns the session of the last start if it belongs to this account.
func (c *Client) storedSession(ctx context.Context) (kept storedSession, err error) {
	text, err := c.store.Setting(ctx, settingSession)
	if err != nil || text == "" {
		return kept, err
	}
	if json.Unmarshal([]byte(text), &kept) != nil || kept.Homeserver != c.base.String() || !c.isAccount(kept.UserID) {
		// Another account or homeserver: its sync position means nothing here.
		if !c.delivers() {
			return storedSession{}, nil
		}
		return storedSession{}, c.store.SetSetting(ctx, settingSync, "")
	}
	return kept, nil
}

// isAccount reports whether a user is the configured one. Homeservers take a name in any case, and return theirs.
func (c *Client) isAccount(userID string) bool {
	name := c.options.Username
	if name == "" || strings.HasPrefix(name, "@") {
		return name == "" || strings.EqualFold(name, userID)
	}
	local, _, _ := strings.Cut(strings.TrimPrefix(userID, "@"), ":")
	return strings.EqualFold(local, name)
}

func (c *Client) saveSession(ctx context.Context, kept storedSession) error {
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return c.store.SetSetting(ctx, settingSession, string(text))
}

// openToken uses the configured access token, which cannot be renewed.
func (c *Client) openToken(ctx context.Context, kept storedSession) (*session, error) {
	s, err := c.check(ctx, c.options.AccessToken)
	switch {
	case hasClass(err, ClassRelogin):
		return nil, c.needsToken(err, "the configured access token has ended or is wrong")
	case hasClass(err, ClassLocked):
		return nil, c.needsToken(err, reasonOf(err))
	case err != nil:
		return nil, err
	case !c.isAccount(s.UserID):
		return nil, &SendError{Class: ClassLocked, Reason: "the access token is of " + s.UserID + ", not of the configured user", Setting: settingToken}
	}
	now := s.storedSession
	now.Token = ""
	if kept != now && c.delivers() {
		return s, c.saveSession(ctx, now)
	}
	return s, nil
}

// check returns the session of a token.
func (c *Client) check(ctx context.Context, token string) (*session, error) {
	var who mautrix.RespWhoami
	err := c.do(ctx, c.api("", token), request{method: http.MethodGet, path: v3("account", "whoami")}, &who)
	if err != nil {
		return nil, err
	}
	if who.UserID == "" {
		return nil, notJSON(http.StatusOK, nil, errNoField)
	}
	return c.newSession(who.UserID.String(), who.DeviceID.String(), token), nil
}

var errNoField = errors.New("a field that must be there is not")

// logIn logs in with the password, on the same device if that still exists.
func (c *Client) logIn(ctx context.Context, device string) (*session, error) {
	in := mautrix.ReqLogin{
		Type: mautrix.AuthTypePassword, Password: c.options.Password,
		Identifier:               mautrix.UserIdentifier{Type: mautrix.IdentifierTypeUser, User: c.options.Username},
		InitialDeviceDisplayName: "Slipway relay",
	}
	if device != noDevice {
		in.DeviceID = id.DeviceID(device)
	}
	var out mautrix.RespLogin
	err := c.do(ctx, c.api("", ""), request{method: http.MethodPost, path: v3("login"), in: in}, &out)
	if err != nil {
		return nil, c.loginRefused(ctx, err)
	}
	if out.UserID == "" || out.AccessToken == "" {
		return nil, notJSON(http.StatusOK, nil, errNoField)
	}
	s := c.newSession(out.UserID.String(), out.DeviceID.String(), out.AccessToken)
	c.log.Info("logged in", zap.String("user", s.UserID), zap.String("device", s.DeviceID), zap.Bool("same_device", s.DeviceID == device))
	return s, c.saveSession(ctx, s.storedSession)
}

const wrongPassword = "the homeserver refuses the bot's user name or password"

// loginRefused classifies a refused login: codes that block a room elsewhere concern the account here.
func (c *Client) loginRefused(ctx context.Context, err error) error {
	var failed *SendError
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case failed.Class == ClassLocked:
		return c.withAnswer(err)
	case !hasClass(err, ClassBlock, ClassDead, ClassRelogin) && failed.Code != "M_UNRECOGNIZED":
		return err
	case c.withoutPasswords(ctx):
		return c.needsToken(err, "the homeserver has no login with a password")
	case failed.Code == "M_UNRECOGNIZED":
		return err
	case failed.Code == "M_FORBIDDEN", failed.Code == "M_INVALID_USERNAME":
		return c.withAnswer(reclassify(err, ClassLocked, wrongPassword))
	}
	return c.withAnswer(reclassify(err, ClassLocked, "the homeserver refuses the login"))
}

// withoutPasswords reports whether the homeserver offers no login with a password, or none at all.
func (c *Client) withoutPasswords(ctx context.Context) bool {
	var offered mautrix.RespLoginFlows
	err := c.do(ctx, c.api("", ""), request{method: http.MethodGet, path: v3("login")}, &offered)
	if hasCode(err, "M_UNRECOGNIZED") {
		var versions mautrix.RespVersions
		err = c.do(ctx, c.api("", ""), request{method: http.MethodGet, path: mautrix.ClientURLPath{"versions"}}, &versions)
		return err == nil && len(versions.Versions) > 0
	}
	return err == nil && !offered.HasFlow(mautrix.AuthTypePassword)
}

const settingToken = "matrix.accesstoken"

// needsToken returns a failure that another access token ends.
func (c *Client) needsToken(err error, reason string) error {
	err = reclassify(err, ClassLocked, reason)
	var failed *SendError
	if errors.As(err, &failed) {
		failed.Setting = settingToken
	}
	return c.withAnswer(err)
}

// withAnswer adds the homeserver's own sentence to the reason of a failure, unless it repeats a secret.
func (c *Client) withAnswer(err error) error {
	var failed *SendError
	if !errors.As(err, &failed) || failed.Answer == "" {
		return err
	}
	for _, secret := range []string{c.options.AccessToken, c.options.Password} {
		if secret != "" && strings.Contains(failed.Answer, secret) {
			return err
		}
	}
	return withReason(err, failed.Reason+`: "`+failed.Answer+`"`)
}

// Probe logs in if necessary and asks the homeserver whether it accepts the session.
func (c *Client) Probe(ctx context.Context) error {
	if c.session.Load() == nil {
		return c.connect(ctx)
	}
	return c.call(ctx, request{method: http.MethodGet, path: v3("account", "whoami")}, nil)
}
