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
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"slipway/registry/internal/document"
	"slipway/registry/internal/imagecopy"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/shared/plural"
)

const (
	parallel    = 4           // repositories that are copied to a target at the same time
	maxTurn     = time.Minute // then a turn serves no further mark, as pushes may have come meanwhile
	maxFailures = 10          // in succession, after which the target seems to be away
	maxGone     = 10          // tags that a comparison deletes at the target even if they are most of a repository there
)

// Target is another registry.
type Target struct {
	Name         string
	URL          *url.URL // its path begins the names of repositories there
	Login        func(context.Context) (user, password string, err error)
	CAs          *x509.CertPool // nil = those of the system
	Repositories pattern.Names
	OnPush       bool
	Interval     time.Duration // between comparisons, 0 = none by schedule
	Deletions    bool          // tags that are gone here are deleted there
	Woken        chan struct{} // made by New; receives a value after changes were marked for any target
}

// Options name what is copied from where.
type Options struct {
	Store     storage.Store
	Targets   []*Target
	Caches    func(oci.Name) bool // selects repositories that are caches, which aren't copied; nil = none
	UserAgent string
	Log       *zap.Logger
}

// Replicator copies to the targets. It is safe for concurrent use.
type Replicator struct {
	Options
	Registry *registry.Registry // may be set after New, before anything is copied

	work    chan struct{}
	mu      sync.Mutex
	pending map[string]bool // keys of marks that aren't written yet
	failing sync.Map        // keys of marks that failed last; they are served after the others
}

// New returns a Replicator whose Run must be called if Changed is.
func New(o Options) *Replicator {
	for _, t := range o.Targets {
		t.Woken = make(chan struct{}, 1)
	}
	return &Replicator{Options: o, work: make(chan struct{}, 1), pending: map[string]bool{}}
}

// selects reports whether the repository is copied to the target. Names that begin with the target's path stay here:
// the target may be this registry.
func (o *Options) selects(t *Target, name oci.Name) bool {
	prefix := strings.Trim(t.URL.Path, "/")
	return t.Repositories.Match(name) && (prefix == "" || !strings.HasPrefix(string(name), prefix+"/")) && (o.Caches == nil || !o.Caches(name))
}

// Status describes a target after its last turn, on any replica.
type Status struct {
	Name    string           `json:"name"`
	URL     string           `json:"url"`
	Waiting int              `json:"waiting"`         // changes
	Behind  time.Time        `json:"behind,omitzero"` // since when something waits; zero = the target has everything
	Error   string           `json:"error,omitempty"` // of the last turn
	At      time.Time        `json:"at,omitzero"`     // when that ended; zero = there was none
	Copied  imagecopy.Report `json:"copied"`          // in the last turn
	Takes   bool             `json:"-"`               // nothing failed in it that hadn't failed before
}

// String describes how far the target is.
func (s *Status) String() string {
	switch {
	case s.Behind.IsZero() && s.At.IsZero():
		return "nothing was copied yet"
	case s.Behind.IsZero():
		return "complete at " + s.At.UTC().Format(time.RFC3339)
	}
	text := plural.Of(s.Waiting, "change") + " waiting, behind since " + s.Behind.UTC().Format(time.RFC3339)
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}

// Status returns the status, with the marks that wait now.
func (r *Replicator) Status(ctx context.Context, t *Target) (Status, error) {
	doc := r.document(t)
	if err := doc.Refresh(ctx); err != nil {
		return Status{}, err
	}
	last, _ := doc.Last()
	s := *last
	list, err := r.queued(ctx, t)
	s.Name, s.URL, s.Waiting = t.Name, t.URL.Redacted(), len(list)
	return s, err
}

func (r *Replicator) document(t *Target) *document.Document[Status] {
	return document.New[Status](r.Store, layout.Replication+"/"+t.Name+"/status")
}

// Sync marks all repositories that exist, and copies until nothing waits or something fails. A repository that is gone is at the target for
// good unless it was marked when it went: a storage that is suddenly empty must not empty the target.
func (r *Replicator) Sync(ctx context.Context, t *Target) (s Status, err error) {
	names, _, err := r.Registry.Catalog(ctx, math.MaxInt-1, "", func(n oci.Name) bool { return r.selects(t, n) })
	for i, name := range names {
		names[i] = markKey(t.Name, oci.Name(name), "")
	}
	if err == nil {
		err = r.put(ctx, names)
	}
	for more := true; err == nil && more; more = s.Waiting > 0 {
		time.Sleep(gather)
		if s, err = r.Turn(ctx, t, false); err == nil {
			err = ctx.Err() // then a turn leaves all marks, and not each store says so
		}
	}
	return s, err
}

// turn is one turn.
type turn struct {
	*Replicator
	target *Target
	client *client

	mu       sync.Mutex
	report   imagecopy.Report
	failed   error // the first failure
	failures int   // in succession
}

// Turn copies what is marked for the target, without what has failed if fresh is set. It continues after a failure, and returns the
// first one. ErrBusy if another process copies to the target.
func (r *Replicator) Turn(ctx context.Context, t *Target, fresh bool) (s Status, err error) {
	s, err = r.Status(ctx, t)
	if err != nil || s.Waiting == 0 && s.Behind.IsZero() {
		return s, err
	}
	unlock, err := r.Store.Lock(ctx, "replicate-"+t.Name, false)
	if err != nil {
		return s, err
	}
	defer unlock()
	began := time.Now()
	run := &turn{Replicator: r, target: t, client: newClient(t, r.UserAgent)}
	defer run.client.Client.Client.CloseIdleConnections()
	takes, failed := run.copy(ctx, fresh, began.Add(maxTurn))
	if _, ok := errors.AsType[*url.Error](failed); ok && !errors.Is(failed, storage.ErrUnavailable) { // which a blob here may be
		failed = fmt.Errorf("the target can't be reached: %w", failed)
	}
	list, err := r.queued(ctx, t)
	if err == nil {
		err = r.document(t).Update(ctx, func(last *Status) error {
			s = Status{Name: t.Name, URL: s.URL, Waiting: len(list), At: time.Now(), Copied: run.report, Behind: last.Behind}
			if s.Behind.IsZero() {
				s.Behind = began
			}
			if failed != nil {
				s.Error = failed.Error()
			} else if len(list) == 0 {
				s.Behind = time.Time{}
			} else if fresh {
				s.Error = last.Error
			}
			*last = s
			return nil
		})
	}
	s.Takes = takes
	return s, errors.Join(failed, err)
}

// copy copies what is marked, several repositories at a time: those with a push first, then the others, and last what failed
// before, unless fresh is set. Each in any order, so that none waits for one that fails. takes is false if something failed that
// hadn't before.
func (run *turn) copy(ctx context.Context, fresh bool, end time.Time) (takes bool, err error) {
	list, err := run.queued(ctx, run.target)
	if err != nil {
		return false, err
	}
	byName, failing, keys := map[oci.Name][]mark{}, map[oci.Name][]mark{}, map[any]bool{}
	for _, m := range list {
		keys[m.key] = true
		if _, failed := run.failing.Load(m.key); m.version == "" {
			continue
		} else if failed {
			failing[m.name] = append(failing[m.name], m)
		} else {
			byName[m.name] = append(byName[m.name], m)
		}
	}
	run.failing.Range(func(key, _ any) bool {
		if !keys[key] && strings.HasPrefix(key.(string), marks(run.target.Name)) { // another replica has served it
			run.failing.Delete(key)
		}
		return true
	})
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, pushed := range []bool{true, false} {
		for name, list := range byName {
			if pushed == slices.ContainsFunc(list, func(m mark) bool { return m.tag != "" }) {
				group.Go(func() error { run.repository(ctx, name, list, end); return nil })
			}
		}
	}
	_ = group.Wait() // it has no error
	if takes = run.failed == nil; fresh {
		return takes, run.failed
	}
	for name, list := range failing {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		group.Go(func() error { run.repository(ctx, name, list, end); return nil })
	}
	_ = group.Wait()
	return takes, run.failed
}

// repository serves marks of one repository, and removes those of what hasn't changed again.
func (run *turn) repository(ctx context.Context, name oci.Name, list []mark, end time.Time) {
	var report imagecopy.Report
	repo := run.Registry.Repository(name)
	c := &copying{turn: run, from: source{imagecopy.Pulled{Puller: repo}, repo}, to: run.client.repository(name)}
	c.copier = imagecopy.New(c.from, c.to, false, &report)
	for _, m := range list {
		if !time.Now().Before(end) {
			break // the marks stay, as they do if they can't be removed
		}
		switch err := c.serve(ctx, m.tag); {
		case err == nil:
			run.failing.Delete(m.key)
			_ = run.Store.Apply(ctx, nil, storage.Stage{{Key: m.key, Delete: true, If: storage.IfVersion(m.version)}})
		case !errors.Is(err, errAway):
			run.failing.Store(m.key, true)
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.report.Add(&report)
}

// copying is one repository in a turn.
type copying struct {
	*turn
	from   source
	to     *repository
	copier *imagecopy.Copier
}

// source is a repository of this registry. Reading a manifest doesn't count as a pull.
type source struct {
	imagecopy.Pulled
	repo registry.Repository
}

// Manifest implements [imagecopy.Source].
func (s source) Manifest(ctx context.Context, d oci.Digest) ([]byte, error) {
	m, err := s.repo.Peek(ctx, oci.Reference{Digest: d})
	if err != nil {
		return nil, err
	}
	return m.Bytes, nil
}

// errAway ends a turn.
var errAway = errors.New("the target seems to be away")

// serve copies what a mark with the tag stands for.
func (c *copying) serve(ctx context.Context, tag oci.Tag) (err error) {
	c.mu.Lock()
	away := c.failures >= maxFailures || ctx.Err() != nil
	c.mu.Unlock()
	switch {
	case away:
		return errAway
	case !c.selects(c.target, c.from.repo.Name()): // the configuration has changed
	case tag == "":
		err = c.all(ctx)
	case listed(tag) != "":
		err = c.referrer(ctx, listed(tag))
	default:
		err = c.tag(ctx, tag)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.failures = 0
	case !errors.Is(err, errAway):
		c.failures++
		if c.failed == nil {
			c.failed = fmt.Errorf("%s: %s: %w", c.from.repo.Name(), cmp.Or(tag, "all tags"), err)
		}
	}
	return err
}

// all compares the whole repository. A tag that fails is marked by itself, so the repository needs no other
// comparison for it.
func (c *copying) all(ctx context.Context) error {
	list, _, err := c.from.repo.Tags(ctx, -1, "")
	if err != nil && !oci.HasCode(err, oci.CodeNameUnknown) {
		return err
	}
	gone, err := c.gone(ctx, list)
	if err != nil {
		return err
	}
	for _, t := range slices.Concat(list, gone) {
		key := markKey(c.target.Name, c.from.repo.Name(), oci.Tag(t))
		if _, failed := c.failing.Load(key); failed {
			continue // it is marked
		}
		err := c.serve(ctx, oci.Tag(t))
		if err != nil && !errors.Is(err, errAway) {
			if err = c.put(ctx, []string{key}); err == nil {
				c.failing.Store(key, true)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gone lists the tags at the target that aren't here.
func (c *copying) gone(ctx context.Context, here []string) (gone []string, err error) {
	if !c.target.Deletions {
		return nil, nil
	}
	err = c.to.Tags(ctx, "", func(page []string) error {
		gone = append(gone, page...)
		return nil
	})
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); err != nil && (!ok || answer.StatusCode != http.StatusNotFound) {
		return nil, err
	}
	gone = slices.DeleteFunc(gone, func(t string) bool {
		_, found := slices.BinarySearch(here, t)
		return found || listed(oci.Tag(t)) != ""
	})
	if n := len(gone) + len(here); len(gone) > maxGone && len(gone) > n/2 {
		if exists, err := c.from.repo.HasManifests(ctx); exists || err != nil { // it wasn't deleted
			return nil, cmp.Or(err, fmt.Errorf("%d of %d tags at the target are not here, as after a start with another storage: delete them there if that is right", len(gone), n))
		}
	}
	return gone, nil
}

// tag brings a tag at the target to what it is here.
func (c *copying) tag(ctx context.Context, tag oci.Tag) error {
	m, err := c.from.repo.Peek(ctx, oci.Reference{Tag: tag})
	if oci.IsUnknown(err) {
		if _, err := c.from.repo.TagModified(ctx, tag); c.target.Deletions && oci.IsUnknown(err) { // not only its manifest is missing
			if err = c.to.deleteTag(ctx, tag); err == nil {
				c.Log.Info("deleted a tag at a target", zap.String("target", c.target.Name), zap.String("repository", string(c.from.repo.Name())), zap.String("tag", string(tag)))
			}
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	there, err := c.to.Resolve(ctx, string(tag))
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return err
	}
	var moved []oci.Tag
	if oci.Digest(there.Digest) != m.Digest {
		moved = []oci.Tag{tag}
	}
	_, err = c.copier.Copy(ctx, &m.Descriptor, moved)
	return err
}

// referrer copies a manifest that was pushed by digest if the target has what it refers to. Others
// come with their tags.
func (c *copying) referrer(ctx context.Context, d oci.Digest) error {
	m, err := c.from.repo.Peek(ctx, oci.Reference{Digest: d})
	if oci.IsUnknown(err) || err == nil && m.Subject == "" {
		return nil
	}
	if err != nil {
		return err
	}
	has, err := c.to.Manifests().Exists(ctx, descriptor("", m.Subject, 0))
	if err != nil || !has {
		return err
	}
	_, err = c.copier.Copy(ctx, &m.Descriptor, nil)
	return err
}

// listed returns the manifest of which clients keep the list of referrers in the tag
// (distribution-spec "Referrers Tag Schema"), "" for any other tag.
func listed(tag oci.Tag) oci.Digest {
	d, err := oci.ParseDigest(strings.Replace(string(tag), "-", ":", 1))
	if err != nil {
		return ""
	}
	return d
}
