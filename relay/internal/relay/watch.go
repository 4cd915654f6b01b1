package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/application"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	watchEvery = time.Second
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

// look checks all applications once, unless there is nothing to watch.
func (w *watcher) look(ctx context.Context) error {
	if w.idle && !w.expectsHeartbeats() {
		w.looked = time.Now()
		return nil
	}
	all, err := w.s.store.Watched(ctx, heartbeatKey)
	now := time.Now()
	if err != nil {
		return err
	}
	if now.Sub(w.looked) > blindAfter {
		w.since = now
	}
	w.looked, w.idle = now, len(all) == 0
	var failed error
	for _, a := range all {
		heard := max(a.LastUsed, a.HeartbeatSince)
		isLate := late(a, w.since, now)
		switch {
		case isLate && a.Alarm == 0 && w.late[a.ID] != heard:
			err = w.say(ctx, a.ID, lateReport(a, heard))
			if err == nil {
				w.late[a.ID] = heard
			}
		case !isLate && a.Alarm != 0 && heard > a.Episode:
			err = w.say(ctx, a.ID, returnReport(a, heard))
		default:
			continue
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// expectsHeartbeats reports whether an application has an interval of heartbeats.
func (w *watcher) expectsHeartbeats() bool {
	return slices.ContainsFunc(w.s.Apps(), func(app *account.App) bool { return app.Row().Heartbeat != 0 })
}

// late reports whether an application missed its heartbeat. Intervals restart when the relay starts listening.
func late(a store.Watched, since, now time.Time) bool {
	if a.Heartbeat == 0 {
		return false
	}
	from := max(a.LastUsed, a.HeartbeatSince, since.UnixMilli())
	return now.UnixMilli()-from > a.Heartbeat+a.HeartbeatGrace
}

// say posts a report to an application's room. It does nothing if the application may not send because its owner lost the
// right to the room.
func (w *watcher) say(ctx context.Context, application int64, r intake.Request) error {
	err := w.s.Own(ctx, application, r)
	if err != nil && refusal.KindOf(err) == refusal.KindForbidden {
		return nil
	}
	return err
}

// lateReport says that an application is silent.
func lateReport(a store.Watched, heard int64) intake.Request {
	priority := 1
	return intake.Request{
		Key: heartbeatKey, Change: intake.Update, Began: store.Time(heard), Priority: &priority, Title: "No heartbeat",
		Message: fmt.Sprintf("No heartbeat since %s; one is due every %s.", store.Time(heard).Format("2006-01-02 15:04:05 UTC"), application.Duration(time.Duration(a.Heartbeat)*time.Millisecond)),
	}
}

// returnReport says that an application is heard of again, or no longer watched.
func returnReport(a store.Watched, heard int64) intake.Request {
	priority, text := 0, "The heartbeat is back."
	if a.Heartbeat == 0 {
		text = "The heartbeat is not watched any more."
	}
	return intake.Request{
		Key: heartbeatKey, Change: intake.Resolve, Began: store.Time(a.Episode), EventAt: store.Time(heard), Priority: &priority, Title: "No heartbeat", Message: text,
	}
}
