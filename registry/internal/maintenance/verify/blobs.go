package verify

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	bufferSize    = 1 << 20
	progressEvery = 10 * time.Second
	maxProgress   = 8 << 20
)

// progress is the position of a verification of the blobs. It is kept on the storage
// so that the next one resumes it.
type progress struct {
	Started  time.Time  `json:"started"`
	After    oci.Digest `json:"after"`
	Blobs    int        `json:"blobs"`
	Bytes    int64      `json:"bytes"`
	Findings []Finding  `json:"findings"` // about blobs, so far
}

// blobs verifies the bytes of all blobs.
func (v *verification) blobs(ctx context.Context) error {
	p := v.resume(ctx)
	v.Progress.Enter("reading blobs")
	v.Progress.Blobs.Store(int64(v.report.Blobs))
	v.Progress.Bytes.Store(v.report.Bytes)
	buffer := make([]byte, bufferSize)
	saved := time.Now()
	for b, err := range tree.Blobs(ctx, v.Store, p.After) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			v.save(context.WithoutCancel(ctx), p)
			return err
		}
		if n, err := strconv.ParseInt(b.Digest.Hex()[:2], 16, 0); err == nil && b.Digest.Algorithm() == oci.SHA256 {
			v.Progress.Percent.Store(n * 100 / 256) // they come in this order
		}
		n, finding := v.blob(ctx, b.Digest, buffer)
		if err := ctx.Err(); err != nil {
			v.save(context.WithoutCancel(ctx), p)
			return err
		}
		if finding != nil {
			p.Findings = append(p.Findings, *finding)
		}
		v.report.Blobs++
		v.Progress.Blobs.Add(1)
		v.report.Bytes += n
		p.After, p.Blobs, p.Bytes = b.Digest, v.report.Blobs, v.report.Bytes
		if time.Since(saved) > progressEvery {
			v.save(ctx, p)
			saved = time.Now()
		}
	}
	if _, err := v.Store.Stat(ctx, layout.Verified); absent(err) { // so a storage that has none is not written to
		return nil
	}
	return v.Store.Apply(ctx, nil, storage.Stage{{Key: layout.Verified, Delete: true, Ephemeral: true}})
}

// resume reads how far an interrupted verification has come, and what it found.
func (v *verification) resume(ctx context.Context) *progress {
	fresh := &progress{Started: v.report.Started}
	content, _, err := storage.Read(ctx, v.Store, layout.Verified, maxProgress)
	if err != nil || v.Restart {
		return fresh
	}
	var p progress
	if json.Unmarshal(content, &p) != nil {
		return fresh
	}
	if _, err := oci.ParseDigest(string(p.After)); err != nil {
		return fresh
	}
	if v.Repair && slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Kind == DamagedBlob && f.Quarantine == "" }) {
		return fresh // the interrupted one was no repair
	}
	v.report.Started, v.report.Resumed = p.Started, true
	v.report.Blobs, v.report.Bytes = p.Blobs, p.Bytes
	for _, f := range p.Findings {
		v.record(f)
	}
	return &p
}

// save is best effort: what cannot be saved is verified again.
func (v *verification) save(ctx context.Context, p *progress) {
	p.Findings = p.Findings[:min(len(p.Findings), maxFindings)]
	if content, err := json.Marshal(p); err == nil && p.After != "" {
		_ = v.Store.Apply(ctx, nil, storage.Stage{{Key: layout.Verified, Content: content, Ephemeral: true}})
	}
}

// blob reads one blob. It is read again if it has changed meanwhile: a push may
// just have repaired it.
func (v *verification) blob(ctx context.Context, d oci.Digest, buffer []byte) (n int64, f *Finding) {
	key := layout.BlobData(d)
	for range 3 {
		before, err := v.stat(ctx, key)
		var got oci.Digest
		if err == nil {
			n, got, err = v.hash(ctx, key, d.Algorithm(), buffer)
		}
		switch {
		case absent(err) || ctx.Err() != nil:
			return n, nil // it was deleted meanwhile
		case err != nil:
			unreadable := v.found(ctx, Finding{Kind: Unreadable, Digest: d, Path: key, Detail: err.Error()}, nil)
			return n, &unreadable
		case got == d:
			return n, nil
		}
		if after, err := v.stat(ctx, key); err == nil && unchanged(after, before) {
			damaged := v.found(ctx, Finding{Kind: DamagedBlob, Digest: d, Path: key, Detail: "its bytes are those of " + string(got)}, &before)
			return n, &damaged
		}
	}
	return n, nil
}

func (v *verification) hash(ctx context.Context, key string, alg oci.Algorithm, buffer []byte) (n int64, got oci.Digest, err error) {
	o, err := v.Store.Open(ctx, key, 0, -1)
	if err != nil {
		return 0, "", err
	}
	defer o.Close()
	h := alg.New()
	n, err = io.CopyBuffer(h, struct{ io.Reader }{&paced{ctx, o, &v.pace, &v.Progress.Bytes}}, buffer)
	return n, alg.Digest(h.Sum(nil)), err
}

// paced is a reader that keeps to a pace, counts and ends with ctx.
type paced struct {
	ctx    context.Context
	reader io.Reader
	pace   *pace
	count  *atomic.Int64
}

func (r *paced) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.reader.Read(b)
	r.count.Add(int64(n))
	r.pace.wait(r.ctx, n)
	return n, err
}

// pace holds reads to a rate.
type pace struct {
	rate int64 // bytes in a second, 0 = no limit
	due  time.Time
}

// wait waits for as long as n bytes may take.
func (p *pace) wait(ctx context.Context, n int) {
	if p.rate <= 0 {
		return
	}
	if now := time.Now(); p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	select {
	case <-time.After(time.Until(p.due)):
	case <-ctx.Done():
	}
}
