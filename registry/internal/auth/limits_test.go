package auth

import (
	"net/http/httptest"
	"testing"
	"time"

	"slipway/registry/internal/oci"
)

func TestLimiter_Requests(t *testing.T) {
	l, now := newLimiter("user", Limit{Requests: 2, Burst: 3}), time.Now()
	ask := func(who string, at time.Duration) error {
		_, err := l.begin(who, false, now.Add(at))
		return err
	}
	for range 3 {
		if err := ask("alice", 0); err != nil {
			t.Error(err)
		}
	}
	err := ask("alice", 0)
	if got := refusal(t, err); got.Reason != TooManyRequests || got.RetryAfter != time.Second || got.Err.Code != oci.CodeTooManyRequests {
		t.Errorf("%+v", got)
	}
	if err := ask("bob", 0); err != nil {
		t.Errorf("another client: %v", err)
	}
	if err := ask("alice", 400*time.Millisecond); err == nil {
		t.Error("a request too early")
	}
	for _, at := range []time.Duration{600 * time.Millisecond, time.Minute, time.Minute, time.Minute} {
		if err := ask("alice", at); err != nil {
			t.Errorf("after %v: %v", at, err)
		}
	}
	if err := ask("alice", time.Minute); err == nil {
		t.Error("a long pause gives more than the burst")
	}
}

// Requests that overtake each other do not get the time between them twice.
func TestLimiter_TimeGoesForward(t *testing.T) {
	l, now := newLimiter("user", Limit{Requests: 1, Burst: 1}), time.Now()
	for i, at := range []time.Duration{10 * time.Second, 0, 10 * time.Second} {
		if _, err := l.begin("alice", false, now.Add(at)); (err == nil) != (i == 0) {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

func TestLimiter_Uploads(t *testing.T) {
	l, now := newLimiter("address", Limit{Uploads: 2}), time.Now()
	var ends []func()
	for range 2 {
		end, err := l.begin("a", true, now)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	_, err := l.begin("a", true, now)
	if got := refusal(t, err); got.Reason != TooManyUploads || got.RetryAfter <= 0 {
		t.Errorf("%+v", got)
	}
	if _, err := l.begin("a", false, now); err != nil {
		t.Errorf("a pull meanwhile: %v", err)
	}
	ends[0]()
	if _, err := l.begin("a", true, now); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestLimits_Nothing(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	for _, l := range []*Limits{nil, NewLimits(Limit{}, Limit{Requests: 1})} {
		for range 20 {
			if _, err := l.User("alice", true); err != nil {
				t.Error(err)
			}
		}
	}
	if NewLimits(Limit{}, Limit{}) != nil {
		t.Error("limits without a limit")
	}
	if _, err := NewLimits(Limit{Uploads: 1}, Limit{}).Address(r, true); err != nil {
		t.Error(err)
	}
}
