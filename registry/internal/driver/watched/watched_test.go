package watched

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/drivertest"
	"slipway/registry/internal/driver/memory"
)

func TestContract(t *testing.T) {
	drivertest.Run(t, func(*testing.T) driver.Driver { return New(memory.New(), zap.NewNop(), nil) })
}

// Every operation is timed and told under a name of its own.
func TestEveryOperationIsSeen(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	registerer := prometheus.NewRegistry()
	d := New(memory.New(), zap.New(core), registerer)
	ctx := t.Context()
	u, err := d.CreateUpload(ctx, "/u/1")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(ctx, driver.Stage{}, driver.Stage{{Path: "/a/f", Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(ctx, "/a/f")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for e := range d.List(ctx, "/a", "") {
		if e.Name != "f" {
			t.Errorf("listed %v", e)
		}
	}
	_, e1 := d.Stat(ctx, "/a/f")
	_, e2 := d.ReadFile(ctx, "/a/f", 10)
	_, e3 := d.OpenUpload(ctx, "/u/1")
	e4 := d.WriteScratch(ctx, "/u/note", []byte("x"))
	if err := errors.Join(e1, e2, e3, e4, d.Remove(ctx, "/a/f"), d.Discard(ctx, "/u"), u.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stat(ctx, "/a/f"); !errors.Is(err, driver.ErrNotExist) {
		t.Errorf("Stat of nothing: %v", err)
	}
	seen := map[string]int{}
	for _, line := range logs.FilterMessage("storage operation").FilterLevelExact(zap.DebugLevel).All() {
		fields := line.ContextMap()
		if fields["path"] == "" {
			t.Errorf("no path: %v", fields)
		}
		seen[fields["action"].(string)]++
	}
	for _, action := range actions {
		want := 1
		if action == "Stat" {
			want = 2
		}
		if seen[action] != want {
			t.Errorf("%d lines about %s, want %d", seen[action], action, want)
		}
	}
	families, err := registerer.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "registry_storage_action_seconds" || len(families[0].GetMetric()) != len(actions) {
		t.Errorf("families %v, error %v", families, err)
	}
}

// troubled fails or takes its time.
type troubled struct {
	driver.Driver
	err  error
	wait time.Duration
}

func (d *troubled) Stat(context.Context, string) (driver.Info, error) {
	time.Sleep(d.wait)
	return driver.Info{}, d.err
}

func TestTroubleIsToldLouder(t *testing.T) {
	for name, c := range map[string]struct {
		driver troubled
		want   string
	}{
		"fault":       {troubled{err: driver.ErrNoSpace}, "storage operation failed"},
		"slow":        {troubled{wait: slow}, "slow storage operation"},
		"not slow":    {troubled{wait: slow - 1}, ""},
		"not there":   {troubled{err: driver.ErrNotExist}, ""},
		"client gone": {troubled{err: context.Canceled}, ""},
		"taken":       {troubled{err: driver.ErrUploadTaken}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.WarnLevel)
				c.driver.Driver = memory.New()
				_, _ = New(&c.driver, zap.New(core), nil).Stat(t.Context(), "/x")
				var got []string
				for _, line := range logs.All() {
					got = append(got, line.Message)
				}
				if strings.Join(got, ",") != c.want {
					t.Errorf("told %q, want %q", got, c.want)
				}
			})
		})
	}
}
