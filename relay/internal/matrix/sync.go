package matrix

import (
	"context"
	"errors"
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
	lateAfter    = 5 * time.Second  // a response this much later than requested counts as missing
	saveInterval = 10 * time.Second // between writes of the position; replaying a little is harmless
	maxSyncWait  = 30 * time.Second
	followEvery  = 2 * time.Second // between checks for a session, in a relay that does not deliver
)

// filter selects the events and fields that the relay uses.
const filter = `{"presence":{"not_types":["*"]},"account_data":{"not_types":["*"]},` +
	`"event_fields":["type","state_key","sender","event_id","unsigned.transaction_id","unsigned.prev_content.membership",` +
	`"content.membership","content.reason","content.name","content.algorithm","content.rotation_period_ms","content.rotation_period_msgs",` +
	`"content.replacement_room","content.history_visibility","content.io\\.slipway\\.relay","content.m\\.relates_to"],` +
	`"room":{"account_data":{"not_types":["*"]},"ephemeral":{"not_types":["*"]},` +
	`"state":{"types":["m.room.member","m.room.encryption","m.room.tombstone","m.room.name","m.room.power_levels","m.room.history_visibility"]},` +
	`"timeline":{"limit":50,"types":["m.room.message","m.reaction","m.room.encrypted","m.room.redaction","m.room.member","m.room.encryption","m.room.tombstone","m.room.name","m.room.power_levels","m.room.history_visibility"]}}}`

// firstFilter leaves out the members of all rooms: the relay asks for those of owners.
var firstFilter = strings.Replace(filter, `"state":{`, `"state":{"lazy_load_members":true,`, 1)

// position is the position in the sync stream.
type position struct {
	since string
	saved time.Time
	dirty bool
	stuck bool // it cannot be stored; logged once
}

// Run keeps the session and syncs until ctx is done, and sends what happens to [Client.Events]. It outlasts outages of the
// homeserver.
func (c *Client) Run(ctx context.Context) {
	if c.options.Delivers != nil {
		c.forget()
	}
	for failures := 1; ; failures++ {
		err := c.joins.Load(ctx)
		if err == nil {
			break
		}
		c.log.Error("cannot read the pending joins", zap.Error(err))
		if c.pause(ctx, syncWait(err, failures)); ctx.Err() != nil {
			return
		}
	}
	var joining sync.WaitGroup
	joining.Go(func() { c.joins.Run(ctx) })
	defer joining.Wait()
	var at position
	defer c.savePosition(context.WithoutCancel(ctx), &at)
	failures, offline := 0, false
	for ctx.Err() == nil {
		err := c.step(ctx, &at, failures > 0)
		if err == nil {
			failures, offline = 0, false
			continue
		}
		failures++
		c.rooms.setSyncing(false)
		if !offline && (failures > 1 || !hasClass(err, ClassRelogin)) && ctx.Err() == nil { // else another request is logging in
			offline = c.emit(ctx, Offline{reasonOf(err)}) == nil
			c.log.Warn("cannot sync with the homeserver for now", zap.Error(err))
		}
		c.pause(ctx, syncWait(err, failures))
	}
}

// forget drops the cached state: another relay may have delivered since.
func (c *Client) forget() {
	c.session.Store(nil)
	c.login.mu.Lock()
	c.login.failure, c.login.failures, c.login.next = nil, 0, time.Time{}
	c.login.mu.Unlock()
	c.rooms.mu.Lock()
	c.rooms.known, c.rooms.heard = map[string]*room{}, time.Time{}
	c.rooms.mu.Unlock()
	c.crypt.drop()
}

// Follow uses the session that the delivering relay stored, until ctx is done, to answer questions about rooms.
func (c *Client) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		if c.connect(ctx) == nil { // the next attempt may succeed; callers get the reason until then
			c.uploadLimit(ctx)
		}
		c.pause(ctx, followEvery)
	}
}

// step logs in if necessary and handles one sync response.
func (c *Client) step(ctx context.Context, at *position, recovering bool) error {
	before := c.session.Load()
	if err := c.connect(ctx); err != nil {
		return err
	}
	if before == nil {
		if err := c.emit(ctx, Online{}); err != nil {
			return err
		}
		c.uploadLimit(ctx)
	}
	if at.since == "" {
		var err error
		if at.since, err = c.store.Setting(ctx, settingSync); err != nil {
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
	c.rooms.setSyncing(true) // only now: a room may have become encrypted since its state was read
	if device != nil {       // before the next request acknowledges this response
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
		c.pause(ctx, time.Second) // the homeserver does not long-poll
	}
	return nil
}

// syncWatched is sync that emits Offline if the response is late, and reports whether it was.
func (c *Client) syncWatched(ctx context.Context, since string, poll time.Duration) (answer *mautrix.RespSync, late bool, err error) {
	if since == "" { // all rooms: may take long
		answer, err = c.sync(ctx, since, poll)
		return answer, false, err
	}
	reported := make(chan struct{})
	watch := time.AfterFunc(poll+lateAfter, func() {
		defer close(reported)
		_ = c.emit(ctx, Offline{"the homeserver does not answer"}) // fails only when ctx is done
	})
	answer, err = c.sync(ctx, since, poll)
	if late = !watch.Stop(); late {
		<-reported
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
	err = c.call(ctx, request{method: http.MethodGet, path: v3("sync"), query: query, limit: maxSyncAnswer}, &decoded)
	if err == nil && decoded.NextBatch == "" {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	return &decoded.RespSync, err
}

// forgetBadPosition starts over when the homeserver rejects the sync position, as after a restore from a backup.
func (c *Client) forgetBadPosition(ctx context.Context, at *position, err error) error {
	if at.since != "" && hasClass(err, ClassDead, ClassBlock) {
		c.log.Warn("the homeserver does not know the sync position: starting from the beginning", zap.Error(err))
		*at = position{}
		if err := c.store.SetSetting(ctx, settingSync, ""); err != nil {
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
	if err := c.store.SetSetting(ctx, settingSync, at.since); err != nil {
		if !at.stuck {
			c.log.Warn("the sync position cannot be stored", zap.Error(err))
		}
		at.stuck = true
		return
	}
	at.saved, at.dirty, at.stuck = time.Now(), false, false
}

func syncWait(err error, failures int) time.Duration {
	var failed *SendError
	switch {
	case failures == 1 && hasClass(err, ClassRelogin):
		return 100 * time.Millisecond // another request is logging in
	case errors.As(err, &failed) && failed.Class == ClassWait:
		return failed.RetryAfter
	}
	return backoff(500*time.Millisecond, maxSyncWait, failures)
}

// pause waits for d or until the session expires.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-c.expired:
	}
}
