package verify

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/tree"
)

const (
	bufferSize    = 1 << 20
	progressEvery = 10 * time.Second
	maxProgress   = 8 << 20
)

// progress is how far a verification of the blobs has come, kept on the storage
// for the next one to take up.
type progress struct {
	Started  time.Time  `json:"started"`
	After    oci.Digest `json:"after"`
	Blobs    int        `json:"blobs"`
	Bytes    int64      `json:"bytes"`
	Findings []Finding  `json:"findings"` // about blobs, so far
}

// blobs verifies the bytes of all blobs.
func (v *verification) blobs(ctx context.Context) error {
	p := v.takeUp(ctx)
	buffer := make([]byte, bufferSize)
	if v.Repair {
		v.repairFound(ctx, p, buffer)
	}
	saved := time.Now()
	for d, err := range tree.Blobs(ctx, v.Driver, p.After) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			v.save(context.WithoutCancel(ctx), p)
			return err
		}
		n, finding := v.blob(ctx, d, buffer)
		if err := ctx.Err(); err != nil {
			v.save(context.WithoutCancel(ctx), p)
			return err
		}
		if finding != nil {
			p.Findings = append(p.Findings, *finding)
		}
		v.report.Blobs++
		v.report.Bytes += n
		p.After, p.Blobs, p.Bytes = d, v.report.Blobs, v.report.Bytes
		if time.Since(saved) > progressEvery {
			v.save(ctx, p)
			saved = time.Now()
		}
	}
	return v.Driver.Discard(ctx, layout.Verified)
}

// takeUp reads how far an interrupted verification has come, and what it found.
func (v *verification) takeUp(ctx context.Context) *progress {
	fresh := &progress{Started: v.report.Started}
	content, err := v.Driver.ReadFile(ctx, layout.Verified, maxProgress)
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
	v.report.Started, v.report.Resumed = p.Started, true
	v.report.Blobs, v.report.Bytes = p.Blobs, p.Bytes
	for _, f := range p.Findings {
		v.note(f)
	}
	return &p
}

// repairFound looks again at the blobs that the interrupted run found damaged
// and was not asked to put aside.
func (v *verification) repairFound(ctx context.Context, p *progress, buffer []byte) {
	found := p.Findings
	p.Findings = nil
	for _, f := range found {
		if f.Kind != DamagedBlob || f.Aside != "" {
			p.Findings = append(p.Findings, f)
			continue
		}
		v.forget(f)
		if _, again := v.blob(ctx, f.Digest, buffer); again != nil {
			p.Findings = append(p.Findings, *again)
		}
	}
}

// save is best effort: what cannot be saved is verified again.
func (v *verification) save(ctx context.Context, p *progress) {
	p.Findings = p.Findings[:min(len(p.Findings), maxFindings)]
	if content, err := json.Marshal(p); err == nil && p.After != "" {
		_ = v.Driver.WriteScratch(ctx, layout.Verified, content)
	}
}

// blob reads one blob. One that is found damaged is read a second time, unless
// it has not changed meanwhile: a push may just have mended it.
func (v *verification) blob(ctx context.Context, d oci.Digest, buffer []byte) (n int64, f *Finding) {
	path := layout.BlobData(d)
	for range 3 {
		before, err := v.Driver.Stat(ctx, path)
		var got oci.Digest
		if err == nil {
			n, got, err = v.hash(ctx, path, d.Algorithm(), buffer)
		}
		switch {
		case absent(err) || ctx.Err() != nil:
			return n, nil // a collector of garbage has it
		case err != nil:
			f = &Finding{Kind: Unreadable, Digest: d, Path: path, Detail: err.Error()}
			v.found(ctx, *f, nil)
			return n, f
		case got == d:
			return n, nil
		}
		if after, err := v.Driver.Stat(ctx, path); err == nil && after == before {
			f = &Finding{Kind: DamagedBlob, Digest: d, Path: path, Detail: "its bytes are those of " + string(got)}
			v.found(ctx, *f, &before)
			return n, v.last()
		}
	}
	return n, nil
}

// last is the finding noted last, with what became of it.
func (v *verification) last() *Finding {
	if len(v.report.Findings) == maxFindings {
		return nil
	}
	f := v.report.Findings[len(v.report.Findings)-1]
	return &f
}

func (v *verification) hash(ctx context.Context, path string, alg oci.Algorithm, buffer []byte) (n int64, got oci.Digest, err error) {
	file, err := v.Driver.Open(ctx, path)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	h := alg.New()
	n, err = io.CopyBuffer(h, struct{ io.Reader }{&paced{ctx, file, &v.pace}}, buffer)
	return n, alg.Digest(h.Sum(nil)), err
}

// paced is a reader that keeps to a pace and ends with ctx.
type paced struct {
	ctx  context.Context
	file driver.File
	pace *pace
}

func (r *paced) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.file.Read(b)
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
