package maintenance

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/storage/memory"
)

// What a schedule does is in the audit log like the command that does it.
func TestSchedules_AreAudited(t *testing.T) {
	store := memory.New()
	cfg := config.Default()
	work := &cfg.Storage.Maintenance
	const soon = 50 * time.Millisecond
	work.UploadPurging.Interval, work.GC.Interval, work.Retention.Interval, work.Verify.Interval = soon, soon, soon, soon
	work.GC.Enabled, work.Retention.Enabled, work.Verify.Enabled, work.Verify.Repair = true, true, true, true
	cfg.Proxy.Sync.Interval = soon
	lines := make(lineSink)
	acts := audit.New(zap.NewNop(), lines)
	o := newOptions(t, &cfg, store)
	o.Audit, o.Board = acts, &schedule.Board{}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	Start(ctx, &group, o)
	missing := []string{"uploads delete", "retention apply", "garbage-collect", "mirror sync", "verify"}
	for patience := time.After(time.Minute); len(missing) > 0; {
		select {
		case line := <-lines:
			var r audit.Record
			if err := json.Unmarshal(line, &r); err != nil || r.Event != "maintenance" || r.Who != "maintenance schedule" || r.From == "" || r.Result == "" {
				t.Errorf("%s %v", line, err)
			}
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == r.Reference })
			continue
		case <-patience:
		}
		t.Errorf("not in the audit log: %q", missing)
		break
	}
	cancel()
	go func() {
		group.Wait()
		if err := acts.Close(); err != nil {
			t.Error(err)
		}
		close(lines)
	}()
	for range lines {
		continue
	}
	did := map[string]schedule.Job{}
	for _, job := range o.Board.Jobs() {
		did[job.Name] = job
		if job.Ended.IsZero() || !job.Begun.IsZero() || job.Did == "" || job.Next.IsZero() {
			t.Errorf("on the board: %+v", job)
		}
	}
	if len(did) != 5 || !did["mirror sync"].Failed && did["mirror sync"].Did != "0 images, 0 blobs fetched, 0 failed" {
		t.Errorf("on the board: %+v", did)
	}
}

// lineSink is a sink from which a test reads each line.
type lineSink chan []byte

// Write implements io.Writer.
func (l lineSink) Write(b []byte) (int, error) {
	l <- bytes.Clone(b)
	return len(b), nil
}

// Close implements io.Closer.
func (lineSink) Close() error { return nil }
