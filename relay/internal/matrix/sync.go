package matrix

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
)

const (
	longPoll     = 10 * time.Second
	lateAfter    = 5 * time.Second  // an answer that comes so much later than asked for is told as missing
	saveInterval = 10 * time.Second // between writes of the position: replaying a little does no harm
	maxSyncWait  = 30 * time.Second
	followEvery  = 2 * time.Second // between looks for a session, for a relay that does not deliver
)

// filter asks for the events that matter here, with those fields only: a busy
// room's talk is not ours to read.
const filter = `{"presence":{"not_types":["*"]},"account_data":{"not_types":["*"]},` +
	`"event_fields":["type","state_key","sender","event_id","unsigned.transaction_id","unsigned.prev_content.membership",` +
	`"content.membership","content.reason","content.name","content.algorithm","content.rotation_period_ms","content.rotation_period_msgs",` +
	`"content.replacement_room","content.history_visibility","content.io\\.slipway\\.relay"],` +
	`"room":{"account_data":{"not_types":["*"]},"ephemeral":{"not_types":["*"]},` +
	`"state":{"types":["m.room.member","m.room.encryption","m.room.tombstone","m.room.name","m.room.power_levels","m.room.history_visibility"]},` +
	`"timeline":{"limit":50,"types":["m.room.message","m.room.encrypted","m.room.redaction","m.room.member","m.room.encryption","m.room.tombstone","m.room.name","m.room.power_levels","m.room.history_visibility"]}}}`

// firstFilter spares the homeserver all members of all rooms: whether owners are in their rooms is asked for.
var firstFilter = strings.Replace(filter, `"state":{`, `"state":{"lazy_load_members":true,`, 1)

// position is how far sync has come.
type position struct {
	since string
	saved time.Time
	dirty bool
	stuck bool // it cannot be stored, and that has been said
}

// Run keeps the session and follows the rooms until ctx is done; what it hears it
// tells by [Client.Events]. The homeserver need not be there; there is nothing to return.
func (c *Client) Run(ctx context.Context) {
	if c.options.Delivers != nil {
		c.forget()
	}
	for failures := 1; ; failures++ {
		err := c.loadPending(ctx)
		if err == nil {
			break
		}
		c.log.Error("cannot read the pending joins", zap.Error(err))
		if c.pause(ctx, syncWait(err, failures)); ctx.Err() != nil {
			return
		}
	}
	var joins sync.WaitGroup
	joins.Go(func() { c.runPending(ctx) })
	defer joins.Wait()
	var at position
	defer c.savePosition(context.WithoutCancel(ctx), &at)
	failures, told := 0, false
	for ctx.Err() == nil {
		err := c.step(ctx, &at, failures > 0)
		if err == nil {
			failures, told = 0, false
			continue
		}
		failures++
		c.rooms.setSyncing(false)
		if !told && (failures > 1 || !relogin(err)) && ctx.Err() == nil { // else another request is logging in
			told = c.emit(ctx, Offline{reasonOf(err)}) == nil
			c.log.Warn("cannot sync with the homeserver for now", zap.Error(err))
		}
		c.pause(ctx, syncWait(err, failures))
	}
}

// forget gives up what is remembered of the homeserver: another relay may have followed it since.
func (c *Client) forget() {
	c.session.Store(nil)
	c.login.mu.Lock()
	c.login.failure, c.login.failures, c.login.next = nil, 0, time.Time{}
	c.login.mu.Unlock()
	c.rooms.mu.Lock()
	c.rooms.known, c.rooms.heard = map[string]*room{}, time.Time{}
	c.rooms.mu.Unlock()
	c.pending.mu.Lock()
	c.pending.byRoom = map[string]*pendingJoin{}
	c.pending.mu.Unlock()
	c.crypt.drop()
}

// Follow keeps the session that the relay that delivers has stored, until ctx is done, so that questions about rooms can be
// answered here too.
func (c *Client) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		_ = c.connect(ctx) // the next attempt may succeed; who asks the homeserver meanwhile is told why
		c.pause(ctx, followEvery)
	}
}

// step logs in if need be and takes one answer of sync.
func (c *Client) step(ctx context.Context, at *position, recovering bool) error {
	before := c.session.Load()
	if err := c.connect(ctx); err != nil {
		return err
	}
	if before == nil {
		if err := c.emit(ctx, Online{}); err != nil {
			return err
		}
	}
	if at.since == "" {
		var err error
		if at.since, err = c.state.Setting(ctx, settingSync); err != nil {
			return err
		}
	}
	device, ready := c.openDevice(ctx)
	if ready {
		if err := c.emit(ctx, Ready{}); err != nil {
			return err
		}
	}
	poll := min(longPoll, c.options.Timeout/2)
	if recovering || at.since == "" {
		poll = 0
	}
	begin := time.Now()
	answer, late, err := c.syncWatched(ctx, at.since, poll)
	if err != nil {
		return c.forgetBadPosition(ctx, at, err)
	}
	recovering = recovering || late
	if recovering {
		if err := c.emit(ctx, Online{}); err != nil {
			return err
		}
	}
	quiet, err := c.take(ctx, at.since == "", answer)
	if err != nil {
		return err
	}
	c.rooms.setSyncing(true) // not before: a room may have become encrypted since it was looked at
	if device != nil {       // before the next request confirms to the homeserver that this answer was read
		if err := device.Take(ctx, answer, at.since == ""); err != nil {
			return err
		}
		if len(answer.DeviceLists.Changed) > 0 {
			if err := c.emit(ctx, DevicesChanged{}); err != nil {
				return err
			}
		}
	}
	at.dirty = at.dirty || at.since != answer.NextBatch
	at.since = answer.NextBatch
	if !quiet || time.Since(at.saved) > saveInterval {
		c.savePosition(ctx, at)
	}
	if len(answer.Rooms.Join) == 0 && quiet && time.Since(begin) < poll/20 {
		c.pause(ctx, time.Second) // a server that never waits is not to be hammered
	}
	return nil
}

// syncWatched is sync. If the answer is missing for too long it says so; late tells that.
func (c *Client) syncWatched(ctx context.Context, since string, poll time.Duration) (answer *mautrix.RespSync, late bool, err error) {
	if since == "" { // all rooms: that may take its time
		answer, err = c.sync(ctx, since, poll)
		return answer, false, err
	}
	told := make(chan struct{})
	watch := time.AfterFunc(poll+lateAfter, func() {
		defer close(told)
		_ = c.emit(ctx, Offline{"the homeserver does not answer"}) // fails only when ctx is done
	})
	answer, err = c.sync(ctx, since, poll)
	if late = !watch.Stop(); late {
		<-told
	}
	return answer, late, err
}

func (c *Client) sync(ctx context.Context, since string, poll time.Duration) (answer *mautrix.RespSync, err error) {
	var decoded syncAnswer
	query := url.Values{"filter": {filter}, "timeout": {strconv.FormatInt(poll.Milliseconds(), 10)}, "set_presence": {"offline"}}
	if since != "" {
		query.Set("since", since)
	} else {
		query.Set("filter", firstFilter)
	}
	err = c.call(ctx, request{method: http.MethodGet, path: v3("sync"), query: query}, &decoded)
	if err == nil && decoded.NextBatch == "" {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	return &decoded.RespSync, err
}

// forgetBadPosition begins anew when the homeserver does not know the position
// any more, as after its restore from a backup.
func (c *Client) forgetBadPosition(ctx context.Context, at *position, err error) error {
	var failed *SendError
	if errors.As(err, &failed) && at.since != "" && (failed.Class == ClassDead || failed.Class == ClassBlock) {
		c.log.Warn("the homeserver does not know the sync position: starting from the beginning", zap.Error(err))
		*at = position{}
		if err := c.state.SetSetting(ctx, settingSync, ""); err != nil {
			return err
		}
	}
	return err
}

func (c *Client) savePosition(ctx context.Context, at *position) {
	if !at.dirty {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := c.state.SetSetting(ctx, settingSync, at.since); err != nil {
		if !at.stuck {
			c.log.Warn("the sync position cannot be stored", zap.Error(err))
		}
		at.stuck = true
		return
	}
	at.saved, at.dirty, at.stuck = time.Now(), false, false
}

// relogin tells whether only a new session is missing, which others say in the log.
func relogin(err error) bool {
	var failed *SendError
	return errors.As(err, &failed) && failed.Class == ClassRelogin
}

func syncWait(err error, failures int) time.Duration {
	if failures == 1 && relogin(err) {
		return 100 * time.Millisecond // another request is logging in
	}
	var failed *SendError
	if errors.As(err, &failed) && failed.Class == ClassWait {
		return failed.RetryAfter
	}
	wait := min(500*time.Millisecond<<min(failures-1, 10), maxSyncWait)
	return wait/2 + rand.N(wait/2)
}

// pause waits; a session that ends cuts it short, so that the next one begins at once.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-c.expired:
	}
}
