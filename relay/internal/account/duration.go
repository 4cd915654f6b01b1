package account

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
	"slipway/shared/duration"
	ui "slipway/shared/web"
)

// durationOf reads a duration such as 5m; 0 and an empty text are none. A number needs a unit: people mean minutes by it as often as
// seconds.
func durationOf(name string, v request.Value) (*time.Duration, error) {
	text, err := v.Words(name)
	if text == nil || err != nil {
		return nil, err
	}
	d, trimmed := time.Duration(0), strings.TrimSpace(*text)
	if trimmed == "" {
		return &d, nil
	}
	if d, err = duration.Parse(trimmed); err == nil {
		return &d, nil
	}
	hint := "5m or 1h30m"
	if _, numeric := strconv.ParseFloat(trimmed, 64); numeric == nil && len(trimmed) < 10 {
		hint = trimmed + "s, " + trimmed + "m or " + trimmed + "h"
	}
	return nil, refusal.Invalid(name, fmt.Sprintf("Field '%s' is %s; it must be a duration with a unit, such as %s.", name, strconv.Quote(ui.Excerpt(20, trimmed)), hint))
}

// maxPeriod bounds the intervals and windows of applications.
const maxPeriod = 31 * 24 * time.Hour

// setPeriod checks and sets a length of time: 0, or from least to maxPeriod.
func setPeriod(to *store.Duration, d *time.Duration, field string, least time.Duration) error {
	if d == nil {
		return nil
	}
	if *d != 0 && *d < least || *d > maxPeriod {
		return refusal.Invalid(field, fmt.Sprintf("Field '%s' is %s; it must be 0, or from %s to %d hours.", field, *d, cmp.Or(store.Duration(least).String(), "0"), int(maxPeriod.Hours())))
	}
	*to = store.Duration(*d)
	return nil
}

// minHeartbeat is the shortest interval of heartbeats: a job that runs more often has a monitor.
const minHeartbeat = time.Minute

// setHeartbeat sets when an application counts as silent. With another interval the first one begins now.
func setHeartbeat(row *store.Application, in ApplicationInput) error {
	before := row.Heartbeat
	if err := setPeriod(&row.Heartbeat, in.Heartbeat, "heartbeat", minHeartbeat); err != nil {
		return err
	}
	if row.Heartbeat != before {
		row.HeartbeatSince = time.Now().UnixMilli()
	}
	return setPeriod(&row.HeartbeatGrace, in.HeartbeatGrace, "heartbeat_grace", 0)
}

// setQuiet sets the quiet hours.
func setQuiet(row *store.Application, in ApplicationInput) error {
	set(&row.QuietSummary, in.QuietSummary)
	hours, zone := row.QuietHours, row.TimeZone
	set(&hours, in.QuietHours)
	set(&zone, in.TimeZone)
	hours, zone = strings.TrimSpace(hours), strings.TrimSpace(zone)
	if _, err := post.ParseQuietHours("", zone); err != nil {
		return refusal.Invalid("time_zone", sentence(err))
	}
	if _, err := post.ParseQuietHours(hours, zone); err != nil {
		return refusal.Invalid("quiet_hours", sentence(err))
	}
	row.QuietHours, row.TimeZone = hours, zone
	return nil
}

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
