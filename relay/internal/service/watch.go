package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	watchEvery = time.Second
	idleEvery  = 10 * time.Second // while there is nothing to watch
	blindAfter = 15 * time.Second // without a look at the database, senders count as unheard
)

// heartbeatKey is the key of the alarms about applications that missed their heartbeat.
const heartbeatKey = "heartbeat"

// watcher raises an alarm when an application misses its heartbeat. Its state is in the database: an alarm is an alert
// whose episode is the last heartbeat, so raising it late or twice adds nothing.
type watcher struct {
	s      *Service
	since  time.Time       // since then senders could be heard
	looked time.Time       // at the database
	idle   bool            // the last look found nothing to watch
	late   map[int64]int64 // the episode of the last alarm, by application
	summed map[int64]int64 // the end of the quiet hours that were summed up last, by application
	minute time.Time       // of the last look at the quiet hours, which end with a minute
}

// watch watches the applications until ctx is done.
func (s *Service) watch(ctx context.Context) {
	w := &watcher{s: s, since: time.Now(), looked: time.Now(), late: map[int64]int64{}, summed: map[int64]int64{}}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := errors.Join(w.look(ctx), w.sumUp(ctx))
		if err != nil && ctx.Err() == nil && !failing {
			s.log.Warn("cannot watch the applications", zap.Error(err))
		}
		failing = err != nil
	}
}

// look checks all applications once, every tenth time while there is nothing to watch: the shortest interval of heartbeats is longer.
func (w *watcher) look(ctx context.Context) error {
	if since := time.Since(w.looked); w.idle && 0 <= since && since < idleEvery {
		return nil
	}
	all, err := w.s.store.Watched(ctx, heartbeatKey)
	now := time.Now()
	if err != nil {
		return err
	}
	if now.Sub(w.looked) > blindAfter || now.Round(0).Before(w.looked.Round(0)) { // or the clock was set back
		w.since = now
	}
	w.looked, w.idle = now, len(all) == 0
	var failed error
	for _, a := range all {
		heard := heard(a, now.UnixMilli())
		isLate := late(a, heard, w.since, now)
		switch {
		case isLate && a.Alarm == 0 && w.late[a.ID] != heard:
			err = w.say(ctx, a.ID, lateReport(a, cmp.Or(heard, w.since.UnixMilli())))
			if err == nil {
				w.late[a.ID] = heard
			}
		case !isLate && a.Alarm != 0 && isBack(a, heard, now.UnixMilli()):
			err = w.say(ctx, a.ID, returnReport(a, heard))
		default:
			continue
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// heard returns when an application was heard of last, or when its interval was set; 0 if that is unknown. A time after now tells
// nothing: it was stored before the clock was set back.
func heard(a store.Watched, now int64) (at int64) {
	for _, t := range []int64{a.LastUsed, a.HeartbeatSince} {
		if t <= now {
			at = max(at, t)
		}
	}
	return at
}

// late reports whether an application missed its heartbeat. Intervals restart when the relay starts listening.
func late(a store.Watched, heard int64, since, now time.Time) bool {
	limit := time.Duration(a.Heartbeat + a.HeartbeatGrace).Milliseconds()
	return a.Heartbeat != 0 && now.UnixMilli()-heard > limit && now.Sub(since).Milliseconds() > limit
}

// isBack reports whether an application was heard of after its alarm, whose episode may lie ahead if the clock was set back since.
func isBack(a store.Watched, heard, now int64) bool {
	return heard > a.Episode || a.Episode > now && max(a.LastUsed, a.HeartbeatSince) < a.Episode
}

// say posts a report to an application's room. It does nothing if the application may not send because its owner lost the
// right to the room.
func (w *watcher) say(ctx context.Context, application int64, r post.Draft) error {
	err := w.s.Own(ctx, application, r)
	if err != nil && refusal.KindOf(err) == refusal.KindForbidden {
		return nil
	}
	return err
}

// lateReport says that an application is silent.
func lateReport(a store.Watched, heard int64) post.Draft {
	priority := 1
	return post.Draft{
		Key: heartbeatKey, Change: post.Update, Began: post.Time(heard), Priority: &priority, Content: post.Content{Title: "No heartbeat from " + a.Name, Body: fmt.Sprintf("No heartbeat since %s; one is due every %s.", post.Time(heard).Format("2006-01-02 15:04:05 UTC"), a.Heartbeat)},
	}
}

// returnReport says that an application is heard of again, or no longer watched.
func returnReport(a store.Watched, heard int64) post.Draft {
	priority, text := 0, "The heartbeat is back."
	if a.Heartbeat == 0 {
		text = "The heartbeat is not watched any more."
	}
	return post.Draft{
		Key: heartbeatKey, Change: post.Resolve, Began: post.Time(a.Episode), EventAt: post.Time(heard), Priority: &priority, Content: post.Content{Title: "Heartbeat of " + a.Name, Body: text},
	}
}
