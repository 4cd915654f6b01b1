// Package replication copies images with their referrers to other registries.
//
// What changes is marked in the storage. A turn for a target compares what is marked with what the
// target has and copies the difference, so it can be repeated and interrupted anywhere, and a tag always ends
// at its present manifest. A comparison of everything, by schedule or by command, marks every repository first.
package replication

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"slipway/registry/internal/document"
	"slipway/registry/internal/imagecopy"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/shared/plural"
)

// parallel is the number of repositories that are copied to a target at the same time.
const parallel = 4

// maxTurn is the time after which a turn begins no further repository, as pushes may have come meanwhile.
const maxTurn = time.Minute

// maxGone is the number of tags that a comparison of a repository deletes at the target even if they are most of those there.
const maxGone = 10

// catalogPage is the number of repositories that a comparison marks together.
const catalogPage = 1000

// Target is another registry.
type Target struct {
	Name         string
	URL          *url.URL // its path begins the names of repositories there
	Login        func(context.Context) (user, password string, err error)
	CAs          *x509.CertPool // nil = those of the system
	Repositories pattern.Names
	Named        []string // patterns that may name a cache
	OnPush       bool
	Interval     time.Duration // between comparisons, 0 = none by schedule
	Deletions    bool          // tags that are gone here are deleted there

	wake chan struct{}
}

// Woken receives a value after changes were marked for any target.
func (t *Target) Woken() <-chan struct{} { return t.wake }

// Options name what is copied from where.
type Options struct {
	Store     storage.Store
	Registry  *registry.Registry // with Options.IndexParents
	Targets   []*Target
	Caches    func(oci.Name) bool // nil = no repository is a cache
	UserAgent string
	Log       *zap.Logger
}

// New completes the targets, once.
func New(o Options) *Options {
	for _, t := range o.Targets {
		t.wake = make(chan struct{}, 1)
	}
	return &o
}

// selects reports whether the repository is copied to the target. A cache has to be named without
// wildcards. Names that begin with the target's path stay here: the target may be this registry.
func (o *Options) selects(t *Target, name oci.Name) bool {
	if o.Caches != nil && o.Caches(name) {
		return slices.Contains(t.Named, string(name))
	}
	prefix := strings.Trim(t.URL.Path, "/")
	return t.Repositories.Match(name) && (prefix == "" || !strings.HasPrefix(string(name), prefix+"/"))
}

// Status describes a target after its last turn, on any replica.
type Status struct {
	Behind   time.Time `json:"behind,omitzero"` // since when something waits; zero = the target has everything
	Waiting  int       `json:"waiting"`         // marks
	Error    string    `json:"error,omitempty"` // of the last turn
	Failed   time.Time `json:"failed,omitzero"` // when it occurred
	Copied   time.Time `json:"copied,omitzero"` // when a turn last ended with nothing waiting
	Compared time.Time `json:"compared,omitzero"`
	Skipped  string    `json:"skipped,omitempty"` // which images were left out since the last comparison, by right
}

func (o *Options) document(t *Target) *document.Document[Status] {
	return document.New[Status](o.Store, layout.Replication+"/"+t.Name+"/status")
}

// Status returns the status, with the marks that wait now.
func (o *Options) Status(ctx context.Context, t *Target) (Status, error) {
	doc := o.document(t)
	if err := doc.Refresh(ctx); err != nil {
		return Status{}, err
	}
	last, _ := doc.Last()
	s := *last
	waiting, err := queued(ctx, o.Store, t.Name, maxMarks)
	s.Waiting = len(waiting)
	return s, err
}

// Due reports whether a turn has something to do, and whether that is a comparison by schedule.
func (o *Options) Due(ctx context.Context, t *Target) (due, compare bool, err error) {
	s, err := o.Status(ctx, t)
	if err != nil {
		return false, false, err
	}
	compare = t.Interval > 0 && time.Since(s.Compared) >= t.Interval
	return compare || s.Waiting > 0, compare, nil
}

// Report counts what a turn has copied.
type Report struct {
	Target       string `json:"target"`
	Repositories int    `json:"repositories"` // that were looked at
	imagecopy.Report
	Deleted int    `json:"deleted"` // tags
	Skipped int    `json:"skipped"` // images of caches that lack blobs
	Waiting int    `json:"waiting"`
	Error   string `json:"error,omitempty"`

	Down bool          `json:"-"` // the target can't be reached, refuses the login or asks for a pause
	Wait time.Duration `json:"-"` // that it asks for
}

// maxNotes bounds the notes of a report.
const maxNotes = 100

// Add adds the counts of a later report.
func (r *Report) Add(other *Report) {
	r.Repositories += other.Repositories
	r.Tags += other.Tags
	r.Manifests += other.Manifests
	r.Blobs += other.Blobs
	r.Bytes += other.Bytes
	r.Deleted += other.Deleted
	r.Skipped += other.Skipped
	r.Notes = append(r.Notes, other.Notes[:min(len(other.Notes), maxNotes-len(r.Notes))]...)
	r.Waiting, r.Error = other.Waiting, other.Error
}

// turn is one turn.
type turn struct {
	*Options
	target *Target
	client *client
	done   *schedule.Progress

	mu     sync.Mutex
	report Report
	failed error  // the first failure that concerns one repository
	lacks  string // the first image of a cache that was skipped
}

// Turn copies what is marked for the target, and first marks everything if compare is true. It continues after the failure of
// a repository, and returns the first one. ErrBusy if another process does it.
func (o *Options) Turn(ctx context.Context, t *Target, compare bool, done *schedule.Progress) (Report, error) {
	began := time.Now()
	unlock, err := o.Store.Lock(ctx, "replicate-"+t.Name, false)
	if err != nil {
		return Report{Target: t.Name}, err
	}
	defer unlock()
	run := &turn{Options: o, target: t, done: done, report: Report{Target: t.Name}}
	marked := compare
	if compare {
		done.Enter("marking repositories")
		err = run.markAll(ctx)
		marked = err == nil
	}
	if err == nil {
		done.Enter("copying")
		err = run.copyMarked(ctx)
		run.report.Down = run.client.down(err)
		err = run.client.explain(err)
	}
	if ctx.Err() != nil {
		return run.report, ctx.Err() // the marks stay
	}
	return run.report, errors.Join(err, run.note(context.WithoutCancel(ctx), began, marked, err))
}

// note updates the status.
func (run *turn) note(ctx context.Context, began time.Time, compared bool, failed error) error {
	waiting, err := queued(ctx, run.Store, run.target.Name, maxMarks)
	if err != nil {
		return err
	}
	run.report.Waiting = len(waiting)
	if run.client != nil {
		run.report.Wait = time.Duration(run.client.wait.Load())
	}
	return run.document(run.target).Update(ctx, func(s *Status) error {
		s.Waiting = len(waiting)
		switch {
		case len(waiting) == 0 && failed == nil:
			s.Behind, s.Copied = time.Time{}, time.Now()
		case s.Behind.IsZero():
			s.Behind = began
		}
		if s.Error, s.Failed = "", (time.Time{}); failed != nil {
			s.Error, s.Failed = failed.Error(), time.Now()
			run.report.Error = s.Error
		}
		if compared {
			s.Compared, s.Skipped = began, ""
		}
		if run.report.Skipped > 0 {
			s.Skipped = plural.Of(run.report.Skipped, "image") + " of caches without all blobs, such as " + run.lacks
		}
		return nil
	})
}

// markAll marks all repositories that exist. One that is gone is at the target for good unless it was marked when it went: a storage
// that is suddenly empty must not empty the target.
func (run *turn) markAll(ctx context.Context) error {
	for last := ""; ; {
		names, more, err := run.Registry.Catalog(ctx, catalogPage, last, func(n oci.Name) bool { return run.selects(run.target, n) })
		if err != nil {
			return err
		}
		keys := make([]string, len(names))
		for i, name := range names {
			keys[i] = markKey(run.target.Name, oci.Name(name), "", "")
		}
		if err := put(ctx, run.Store, keys); err != nil || !more || len(names) == 0 {
			return err
		}
		last = names[len(names)-1]
	}
}

// copyMarked copies what is marked, several repositories at a time: those with a push first, and the
// others in any order, so that none waits for one that fails. After maxTurn it leaves the rest to the next turn.
func (run *turn) copyMarked(ctx context.Context) error {
	list, err := queued(ctx, run.Store, run.target.Name, maxMarks)
	if err != nil || len(list) == 0 {
		return err
	}
	if slices.ContainsFunc(list, func(m mark) bool { return m.version == "" }) { // written a moment ago
		time.Sleep(gather)
		if list, err = queued(ctx, run.Store, run.target.Name, maxMarks); err != nil {
			return err
		}
	}
	if run.client, err = newClient(ctx, run.target, run.UserAgent); err != nil {
		return err
	}
	defer run.client.transport.CloseIdleConnections()
	byName := map[oci.Name][]mark{}
	var names []oci.Name
	for _, m := range list {
		if byName[m.repository] == nil {
			names = append(names, m.repository)
		}
		byName[m.repository] = append(byName[m.repository], m)
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	slices.SortStableFunc(names, func(a, b oci.Name) int { return cmp.Compare(wholes(byName[a]), wholes(byName[b])) })
	end := time.Now().Add(maxTurn)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, name := range names {
		group.Go(func() error {
			if ctx.Err() != nil || time.Now().After(end) {
				return ctx.Err()
			}
			return run.repository(ctx, name, byName[name])
		})
	}
	return cmp.Or(group.Wait(), run.failed)
}

// wholes counts the marks for the whole repository.
func wholes(list []mark) (n int) {
	for _, m := range list {
		if m.tag == "" && m.digest == "" {
			n++
		}
	}
	return n
}

// repository copies what is marked of one repository. The error concerns the whole target.
func (run *turn) repository(ctx context.Context, name oci.Name, list []mark) error {
	c := &copying{turn: run, from: source{run.Registry.Repository(name)}, to: run.client.repository(name)}
	c.copier = imagecopy.New(c.from, c.to, false, &c.report)
	err := c.marked(ctx, list)
	run.mu.Lock()
	defer run.mu.Unlock()
	for i, note := range c.report.Notes {
		c.report.Notes[i] = string(name) + ": " + note
	}
	run.report.Add(&Report{Repositories: 1, Report: c.report, Deleted: c.deleted, Skipped: len(c.skipped), Waiting: run.report.Waiting})
	if len(c.skipped) > 0 {
		run.lacks = cmp.Or(run.lacks, string(name)+":"+c.skipped[0])
	}
	run.done.Repositories.Store(int64(run.report.Repositories))
	run.done.Manifests.Store(int64(run.report.Manifests))
	run.done.Blobs.Store(int64(run.report.Blobs))
	run.done.Bytes.Store(run.report.Bytes)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", name, err)
	if run.client.down(err) || ctx.Err() != nil {
		return err
	}
	run.Log.Warn("cannot replicate a repository", zap.String("target", run.target.Name), zap.Error(err))
	run.failed = cmp.Or(run.failed, err)
	return nil
}

// copying is one repository in a turn.
type copying struct {
	*turn
	from    source
	to      *repository
	copier  *imagecopy.Copier
	report  imagecopy.Report
	deleted int
	skipped []string // tags and digests in a cache
}

// marked copies what the marks are for, and removes those that succeeded. It stops if the target is down.
func (c *copying) marked(ctx context.Context, list []mark) (failed error) {
	if !c.selects(c.target, c.from.repo.Name()) { // the configuration has changed
		return remove(ctx, c.Store, list)
	}
	if wholes(list) > 0 {
		left, err := c.all(ctx)
		if err != nil && len(left) == 0 {
			return err
		}
		if failed := put(ctx, c.Store, left); failed != nil {
			return errors.Join(err, failed)
		}
		return errors.Join(err, remove(ctx, c.Store, list))
	}
	var served []mark
	for _, m := range list {
		var err error
		if m.tag != "" {
			err = c.tag(ctx, m.tag)
		} else {
			err = c.untagged(ctx, m.digest)
		}
		if err == nil {
			served = append(served, m)
			continue
		}
		failed = cmp.Or(failed, fmt.Errorf("%s: %w", cmp.Or(string(m.tag), string(m.digest)), err))
		if c.client.down(err) || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed, remove(ctx, c.Store, served))
}

// all compares the whole repository. If nothing but tags failed, left is the keys of their marks: the repository needs no other
// comparison for them.
func (c *copying) all(ctx context.Context) (left []string, failed error) {
	list, err := c.from.tags(ctx)
	if err != nil && !oci.HasCode(err, oci.CodeNameUnknown) {
		return nil, err
	}
	tags := map[oci.Tag]bool{}
	for _, t := range list {
		tags[oci.Tag(t)] = true
		if err := c.tag(ctx, oci.Tag(t)); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", t, err))
			if c.client.down(err) || ctx.Err() != nil {
				return nil, failed
			}
			left = append(left, markKey(c.target.Name, c.from.repo.Name(), oci.Tag(t), ""))
		}
	}
	if !c.target.Deletions {
		return left, failed
	}
	there, err := c.to.tags(ctx)
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	gone := slices.DeleteFunc(there, func(t oci.Tag) bool { return tags[t] || fallback(t) })
	if n := len(gone) + len(tags); len(tags) > 0 && len(gone) > maxGone && len(gone) > n/2 {
		return nil, cmp.Or(failed, fmt.Errorf("%d of %d tags at the target are not here, as after a start with another storage: delete them there if that is right", len(gone), n))
	}
	for _, tag := range gone {
		if err := c.tag(ctx, tag); err != nil {
			failed = cmp.Or(failed, err)
			if c.client.down(err) || ctx.Err() != nil {
				return nil, failed
			}
			left = append(left, markKey(c.target.Name, c.from.repo.Name(), tag, ""))
		}
	}
	return left, failed
}

// tag brings a tag at the target to what it is here.
func (c *copying) tag(ctx context.Context, tag oci.Tag) error {
	if fallback(tag) {
		return nil
	}
	m, err := c.from.peek(ctx, oci.Reference{Tag: tag})
	if oci.IsUnknown(err) {
		return c.gone(ctx, tag)
	}
	if err != nil {
		return err
	}
	there, err := c.to.tagged(ctx, tag)
	if err != nil {
		return err
	}
	if there == m.Digest {
		return c.copier.Refresh(ctx, &m.Descriptor)
	}
	return c.copy(ctx, &m.Descriptor, []oci.Tag{tag})
}

// copy copies an image. One of a cache of which nobody has pulled all blobs is skipped: a comparison copies it once it is complete.
func (c *copying) copy(ctx context.Context, d *oci.Descriptor, tags []oci.Tag) error {
	_, err := c.copier.Copy(ctx, d, tags)
	lacks, ok := errors.AsType[*imagecopy.MissingError](err)
	if !ok || c.Caches == nil || !c.Caches(c.from.repo.Name()) {
		return err
	}
	image := string(d.Digest)
	if len(tags) > 0 {
		image = string(tags[0])
	}
	c.skipped = append(c.skipped, image)
	c.report.Note("%s is skipped: nobody has pulled the blob %s through the cache", image, lacks.Blob)
	return nil
}

// gone deletes a tag at the target that doesn't exist here.
func (c *copying) gone(ctx context.Context, tag oci.Tag) error {
	if _, err := c.from.repo.TagModified(ctx, tag); !oci.IsUnknown(err) || !c.target.Deletions {
		return nil //nolint:nilerr // only its manifest is missing, or nobody can tell
	}
	there, err := c.to.tagged(ctx, tag)
	if err != nil || there == "" {
		return err
	}
	if err := c.to.deleteTag(ctx, tag); err != nil {
		return err
	}
	c.deleted++
	return nil
}

// untagged copies a manifest that was pushed by digest if the target has its subject or an index that contains it. Others
// come with their tags.
func (c *copying) untagged(ctx context.Context, d oci.Digest) error {
	m, err := c.from.peek(ctx, oci.Reference{Digest: d})
	if oci.IsUnknown(err) {
		return nil
	}
	if err != nil {
		return err
	}
	needing, err := c.from.parents(ctx, d)
	if err != nil {
		return err
	}
	if m.Subject != "" {
		needing = append(needing, m.Subject)
	}
	for _, by := range needing {
		if has, err := c.to.exists(ctx, by); err != nil {
			return err
		} else if has {
			return c.copy(ctx, &m.Descriptor, nil)
		}
	}
	return nil
}

// fallback reports whether clients keep the list of a manifest's referrers in the tag
// (distribution-spec "Referrers Tag Schema"). The target has a list of its own.
func fallback(tag oci.Tag) bool {
	_, err := oci.ParseDigest(strings.Replace(string(tag), "-", ":", 1))
	return err == nil
}
