package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Duration is a length of time. In JSON it is 5m or 1h30m, and "" for 0; in the database a number of milliseconds.
type Duration time.Duration

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// String returns the duration without the units that are zero.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if d == 0 {
		return ""
	}
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Value implements [driver.Valuer].
func (d Duration) Value() (driver.Value, error) { return time.Duration(d).Milliseconds(), nil }

// Scan implements [database/sql.Scanner].
func (d *Duration) Scan(column any) error {
	millis, ok := column.(int64)
	if !ok {
		return fmt.Errorf("a duration is a number of milliseconds, not %T", column)
	}
	*d = Duration(time.Duration(millis) * time.Millisecond)
	return nil
}
