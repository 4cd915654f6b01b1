package template

import (
	"errors"
	"math"

	"slipway/relay/internal/format"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

const (
	maxValues = 5000
	maxDepth  = 20
	maxString = 4 << 10
)

var errPayload = errors.New("the payload has too many values, or they are nested too deeply")

// Payload returns the JSON of a request as templates see it: an object, with another value as its field payload. Whole numbers are
// integers, long strings are cut, and there is no token.
func Payload(body []byte) (map[string]any, error) {
	var v any
	switch err := request.Unmarshal(body, &v); {
	case refusal.KindOf(err) == refusal.KindTooLarge:
		return nil, errPayload
	case err != nil:
		return nil, err
	}
	left := maxValues
	v, err := bounded(v, &left, 0)
	if err != nil {
		return nil, err
	}
	data, ok := v.(map[string]any)
	if !ok {
		data = map[string]any{"payload": v}
	}
	delete(data, "token")
	return data, nil
}

// ForAlert returns the payload for the i-th of n messages. If it lists as many alerts, the message has its own as the field alert until
// the next call.
func ForAlert(data map[string]any, i, n int) map[string]any {
	if alerts, _ := data["alerts"].([]any); len(alerts) == n {
		data["alert"] = alerts[i]
	}
	return data
}

func bounded(v any, left *int, depth int) (any, error) {
	if *left--; *left < 0 || depth > maxDepth {
		return nil, errPayload
	}
	var err error
	switch v := v.(type) {
	case string:
		return format.Cut(v, maxString), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), nil
		}
	case []any:
		for i := range v {
			if v[i], err = bounded(v[i], left, depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = bounded(v[k], left, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
