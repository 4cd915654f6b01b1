package registry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage/hostile"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/upload"
)

// A part that a writer has written before it died, or was fenced off, and has not noted
// anywhere goes with the purge, once it is old.
func TestPurge_PartThatNobodyKnows_Goes(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	defer p.Close()
	r := newRegistry(p, Options{})
	pushImage(t, r.Repository("a"), "v1", "x")
	const id = "1f5ab7c2-6a4e-4f0e-9d0b-0d6b5b0c8d11"
	part := strings.TrimSuffix(layout.UploadData("a", id), "data")[1:] + ".data.PART"
	_, err := p.Put(t.Context(), part, []byte("twelve bytes"), &object.Change{})
	check(t, err)
	left := func() bool {
		return slices.ContainsFunc(bucket.Keys(), func(key string) bool { return strings.Contains(key, ".data.PART") })
	}
	report, err := r.PurgeUploads(t.Context(), upload.PurgeOptions{Age: time.Hour})
	check(t, err)
	if len(report.Purged) > 0 || !left() {
		t.Errorf("%+v is purged before its time", report)
	}
	report, err = again(r, Options{Now: func() time.Time { return time.Now().Add(2 * time.Hour) }}).PurgeUploads(t.Context(), upload.PurgeOptions{Age: time.Hour})
	check(t, err)
	if len(report.Purged) != 1 || report.Purged[0].ID != id || report.Bytes != 12 || left() {
		t.Errorf("purged %+v, and left: %v", report, left())
	}
}

// distribution has a state of the hash beside an upload without bytes, too.
func TestCancel_EmptyUploadOfDistribution_LeavesNothing(t *testing.T) {
	p := hostile.New(hostile.Options{}).Process()
	defer p.Close()
	repo := newRegistry(p, Options{}).Repository("a")
	id := start(t, repo)
	state := layout.Upload("a", id) + "/hashstates/sha256/0"
	putObject(t, p, state, "x")
	u, err := repo.ResumeUpload(t.Context(), id, upload.Point{})
	check(t, err)
	check(t, u.Cancel(t.Context()))
	check(t, u.Close())
	if _, err := p.Stat(t.Context(), state); !absent(err) {
		t.Errorf("the state of the hash stays: %v", err)
	}
}
