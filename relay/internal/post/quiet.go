package post

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images hold no time zones
)

const day = 24 * 60 // minutes

// QuietHours is a daily interval in a time zone. The zero value has no quiet hours.
type QuietHours struct {
	from, to int // minutes since midnight; to is less than from where the hours pass midnight
	zone     *time.Location
}

var errForm = errors.New("quiet hours are two times of day such as 22:00-07:00")

// ParseQuietHours parses hours such as 22:00-07:00, "" for none, and the IANA name of a time zone, "" for UTC.
func ParseQuietHours(hours, zone string) (h QuietHours, err error) {
	if strings.EqualFold(zone, "local") { // the server's, which users don't know
		return h, errZone(zone)
	}
	if h.zone, err = time.LoadLocation(zone); err != nil {
		return QuietHours{}, errZone(zone)
	}
	if hours == "" {
		return h, nil
	}
	from, to, found := strings.Cut(hours, "-")
	if !found {
		return QuietHours{}, errForm
	}
	if h.from, err = minutes(from); err != nil {
		return QuietHours{}, err
	}
	if h.to, err = minutes(to); err != nil {
		return QuietHours{}, err
	}
	if h.from == h.to || h.from == day {
		return QuietHours{}, errForm
	}
	return h, nil
}

func errZone(zone string) error {
	return fmt.Errorf("there is no time zone %q; name one such as Europe/Berlin", zone)
}

// minutes reads a time of day, up to 24:00.
func minutes(text string) (int, error) {
	text = strings.TrimSpace(text)
	if text == "24:00" {
		return day, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, errForm
	}
	return t.Hour()*60 + t.Minute(), nil
}

// Contain reports whether t is within the hours.
func (h QuietHours) Contain(t time.Time) bool {
	if h.from == h.to {
		return false
	}
	t = t.In(h.zone)
	m := t.Hour()*60 + t.Minute()
	if h.from < h.to {
		return h.from <= m && m < h.to
	}
	return h.from <= m || m < h.to
}

// Last returns when the hours began and ended the last time before t. Without hours both are zero.
func (h QuietHours) Last(t time.Time) (from, to time.Time) {
	if h.from == h.to {
		return from, to
	}
	t = t.In(h.zone)
	for back := 0; to.IsZero() || to.After(t); back++ {
		to = h.at(t, -back, h.to)
		from = h.at(t, -back, h.from)
	}
	if h.from > h.to {
		from = h.at(to, -1, h.from)
	}
	return from, to
}

func (h QuietHours) at(t time.Time, days, minute int) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day()+days, 0, minute, 0, 0, h.zone)
}
