package collect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
)

// tight is a storage with room for so many objects aside.
type tight struct {
	driver.Driver
	room atomic.Int64
}

func (d *tight) SetAside(ctx context.Context, path, aside string) error {
	if d.room.Add(-1) < 0 {
		d.room.Add(1)
		return fmt.Errorf("set aside: %w", driver.ErrNoSpace)
	}
	err := d.Driver.SetAside(ctx, path, aside)
	if err != nil {
		d.room.Add(1)
	}
	return err
}

func (d *tight) Discard(ctx context.Context, path string) error {
	err := d.Driver.Discard(ctx, path)
	if err == nil && strings.HasPrefix(path, layout.AsideRoot) {
		d.room.Add(1)
	}
	return err
}

func (d *tight) Restore(ctx context.Context, aside, path string) error {
	err := d.Driver.Restore(ctx, aside, path)
	if err == nil {
		d.room.Add(1)
	}
	return err
}

// A full storage is freed bit by bit, as room comes back; what is needed stays.
func TestFullStorage(t *testing.T) {
	for _, room := range []int64{1, 2, 5, 1000, 0} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			d := &tight{Driver: memory.New()}
			d.room.Store(room)
			x := tree{t, d, true}
			kept, keeps := x.image("a", "kept", "kept")
			look, blobs := x.gone, 0
			if room == 0 {
				look = x.whole
			}
			var looks []func()
			for i := range 4 {
				m, layers := x.image("a", "", fmt.Sprint(i))
				looks = append(looks, func() { look("garbage", "a", m, layers) })
				blobs += 1 + len(layers)
			}
			report, err := x.tryRun(Options{DeleteUntagged: true, KeepAge: true})
			if full := room == 0; errors.Is(err, ErrIncomplete) != full || !full && err != nil || full != (report.NoRoom > 0) {
				t.Fatalf("%v, %+v", err, report)
			}
			x.whole("kept", "a", kept, keeps)
			for _, look := range looks {
				look()
			}
			if room > 0 && (report.Blobs.Freed != int64(blobs) || report.Manifests.Freed != 4 || report.Blobs.Found != int64(blobs)+3 || report.Blobs.Kept != 3) {
				t.Errorf("%+v", report)
			}
		})
	}
}
