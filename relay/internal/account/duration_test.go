package account

import (
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
)

// TestDuration: a number without a unit is refused in JSON and in forms, and the refusal repeats it.
func TestDuration(t *testing.T) {
	set := func(contentType, body string) (row store.Application, err error) {
		var in ApplicationInput
		err = request.Each(contentType, []byte(body), func(name string, v request.Value) error {
			_, err := in.Set(name, v)
			return err
		})
		if err == nil {
			err = in.Apply(&row)
		}
		return row, err
	}
	for value, want := range map[string]time.Duration{`"5m"`: 5 * time.Minute, `"1h30m"`: 90 * time.Minute, `" 60s "`: time.Minute, `0`: 0, `"0"`: 0, `""`: 0, `null`: 0} {
		if row, err := set("application/json", `{"heartbeat": `+value+`}`); err != nil || time.Duration(row.Heartbeat) != want {
			t.Errorf("%s: %s, %v", value, row.Heartbeat, err)
		}
	}
	for _, field := range []string{"heartbeat", "heartbeat_grace", "digest", "critical_retry"} {
		for value, part := range map[string]string{`300`: `"300"; it must be a duration with a unit, such as 300s, 300m or 300h`, `"300"`: `"300"`, `1.5`: "1.5h", `"5 minutes"`: "such as 5m", `true`: `"true"`, `"` + strings.Repeat("9", 1000) + `"`: "…"} {
			_, err := set("application/json", `{"`+field+`": `+value+`}`)
			if refusal.KindOf(err) != refusal.KindInvalid || !strings.Contains(err.Error(), part) || len(err.Error()) > 200 {
				t.Errorf("%s %s: %v", field, value, err)
			}
		}
	}
	if _, err := set("application/x-www-form-urlencoded", "heartbeat=5"); refusal.KindOf(err) != refusal.KindInvalid {
		t.Errorf("a form: %v", err)
	}
	if _, err := set("application/json", `{"heartbeat": "59s"}`); err == nil || !strings.HasSuffix(err.Error(), "Field 'heartbeat' is 59s; it must be 0, or from 1m to 744 hours.") {
		t.Errorf("%v", err)
	}
}
