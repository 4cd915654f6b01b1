package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
	"slipway/shared/plural"
)

const (
	summaryWithin = 12 * time.Hour // after the quiet hours; later nobody needs it any more
	summaryLines  = 20
)

// sumUp lists what mentioned nobody, for each application whose quiet hours have ended.
func (w *watcher) sumUp(ctx context.Context) (failed error) {
	now := time.Now()
	minute := now.Truncate(time.Minute)
	if minute.Equal(w.minute) {
		return nil
	}
	apps, err := w.s.store.Applications(ctx, 0, 0)
	if err != nil {
		return err
	}
	w.minute = minute
	for i := range apps {
		row := &apps[i]
		if !row.QuietSummary || row.QuietHours == "" {
			continue
		}
		hours, err := post.ParseQuietHours(row.QuietHours, row.TimeZone)
		from, to := hours.Last(now)
		if err != nil || now.Sub(to) > summaryWithin || w.summed[row.ID] == to.UnixMilli() {
			continue
		}
		if err = w.summary(ctx, row, from, to); err == nil {
			w.summed[row.ID] = to.UnixMilli()
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// summary sends what came in quiet hours. Its idempotency key keeps another relay, and the next start, from sending it again.
func (w *watcher) summary(ctx context.Context, app *store.Application, from, to time.Time) error {
	muted, err := w.s.store.Muted(ctx, app.ID, from.UnixMilli(), to.UnixMilli(), summaryLines+1)
	if err != nil || len(muted) == 0 {
		return err
	}
	err = w.say(ctx, app.ID, summaryReport(muted, to))
	if err != nil && refusal.KindOf(err) == refusal.KindConflict { // it was sent before, with other words
		return nil
	}
	return err
}

// summaryReport lists messages, of which the latest comes first.
func summaryReport(muted []post.Entry, to time.Time) post.Draft {
	priority, count := 1, plural.Of(len(muted), "message")
	if len(muted) > summaryLines {
		muted, count = muted[:summaryLines], "More than "+plural.Of(summaryLines, "message")
	}
	lines := []string{fmt.Sprintf("%s of priority 1 came in the quiet hours:", count)}
	for _, e := range slices.Backward(muted) {
		text := e.Title
		if text == "" {
			text, _, _ = strings.Cut(strings.TrimSpace(e.Body), "\n")
		}
		if e.Resolves {
			text = "✅ " + text
		}
		lines = append(lines, post.Time(e.AcceptedAt).In(to.Location()).Format("15:04 ")+format.Line(text, 200))
	}
	return post.Draft{
		Content: post.Content{Title: "Quiet hours", Body: strings.Join(lines, "\n"), ContentType: format.Plain}, Priority: &priority,
		IdempotencyKey: "relay: quiet hours until " + strconv.FormatInt(to.UnixMilli(), 10),
	}
}
