package object_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// failing is a bucket whose puts fail after some time, until they do not.
type failing struct {
	object.Bucket
	fails int
	after time.Duration
	puts  int
}

func (f *failing) Put(context.Context, string, object.Body, object.PutOptions) (string, error) {
	if f.puts++; f.puts <= f.fails {
		time.Sleep(f.after)
		return "", &object.Trouble{Err: errors.New("connection reset"), Effect: object.Lost}
	}
	return "1", nil
}

// The patience for a large body is that for a small one and the time that it may take: a part that
// breaks late is sent again.
func TestPut_LargeBodyThatFailsLate_IsRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		size int
		want error
		puts int
	}{
		"large": {4 << 20, nil, 2},
		"small": {1 << 10, storage.ErrUnavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := &failing{fails: 1, after: 20 * time.Millisecond}
			c := object.NewClient(b, "", object.Limits{}, object.Timing{Patience: 10 * time.Millisecond, Pause: time.Millisecond})
			_, err := c.Put(t.Context(), "key", make([]byte, tt.size), &object.WriteOptions{})
			if !errors.Is(err, tt.want) || b.puts != tt.puts {
				t.Errorf("%v after %d requests, want %v after %d", err, b.puts, tt.want, tt.puts)
			}
		})
	}
}
