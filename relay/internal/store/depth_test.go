package store

import (
	"errors"
	"testing"

	"slipway/relay/internal/message"
)

// batchOf is a commit of so many messages that are accepted and so many that are sent.
func batchOf(accepted, sent int) *batch {
	b := &batch{}
	for range accepted {
		b.requests = append(b.requests, &request{accept: []*Accept{{}}})
	}
	for range sent {
		b.outcomes = append(b.outcomes, &Outcome{Entry: message.Entry{State: message.StateSent}})
	}
	return b
}

// A count and commits overlap in every way: the number is never lower than what waits, and exact after the next count.
func TestDepth_CommitsOverlapWithACount_NumberIsNotTooLow(t *testing.T) {
	for name, tt := range map[string]struct {
		begins, ends int // when the commit begins and is noted: 0 before the count, 1 while it counts, 2 after it
		seen         bool
	}{
		"noted before":                    {0, 0, true},
		"begun before, seen, noted in it": {0, 1, true},
		"begun before, seen, noted after": {0, 2, true},
		"begun before, not seen, in it":   {0, 1, false},
		"begun before, not seen, after":   {0, 2, false},
		"begun in it, seen, noted in it":  {1, 1, true},
		"begun in it, seen, noted after":  {1, 2, true},
		"begun in it, not seen, in it":    {1, 1, false},
		"begun in it, not seen, after":    {1, 2, false},
		"begun after it, noted after it":  {2, 2, false},
	} {
		d := &depth{}
		b := batchOf(2, 5)
		at := func(step int) {
			if tt.begins == step {
				d.begin(b)
			}
			if tt.ends == step {
				d.end(b)
			}
		}
		at(0)
		_, err := d.get(func() (int64, error) {
			at(1)
			if tt.seen {
				return 7, nil
			}
			return 10, nil
		})
		at(2)
		d.mu.Lock()
		n, fresh := d.n, d.isFresh()
		d.mu.Unlock()
		if err != nil || n < 7 {
			t.Errorf("%s: %d are on their way, want 7 at least; %v", name, n, err)
		}
		if overlaps := tt.begins < 2 && tt.ends > 0; overlaps != d.blurred || !overlaps && n != 7 || !fresh {
			t.Errorf("%s: %d, an estimate: %v", name, n, d.blurred)
		}
		d.counted = d.counted.Add(-countSoon)
		if n, _ = d.get(func() (int64, error) { return 7, nil }); n != 7 {
			t.Errorf("%s: %d after the next count", name, n)
		}
	}
}

// Whoever asks while a count takes its time is not kept waiting, and a count that fails is made again.
func TestDepth_CountHangs_OthersGoOn(t *testing.T) {
	d := &depth{}
	if _, err := d.get(func() (int64, error) { return 3, nil }); err != nil {
		t.Fatal(err)
	}
	d.stale = true
	away := errors.New("away")
	_, err := d.get(func() (int64, error) {
		b := batchOf(1, 0)
		d.begin(b)
		d.end(b)
		if n, err := d.get(func() (int64, error) { panic("counted twice") }); n != 4 || err != nil {
			t.Errorf("%d, %v while somebody counts", n, err)
		}
		return 0, away
	})
	if !errors.Is(err, away) {
		t.Errorf("the count that failed: %v", err)
	}
	if n, err := d.get(func() (int64, error) { return 4, nil }); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
