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
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/errdef"
	ref "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"slipway/registry/internal/imagecopy"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/sharedstate"
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
	Woken        chan struct{} // of one place; receives a value after a change was marked

	failing sync.Map // keys of marks that failed last, which are served after the others
}

// Replicator copies to the targets. It is safe for concurrent use; nil has no targets.
type Replicator struct {
	Store     storage.Store
	Registry  *registry.Registry
	Targets   []*Target
	Caches    func(oci.Name) bool // selects repositories that are caches, which aren't copied; nil = none
	UserAgent string
	Log       *zap.Logger
}

// selects reports whether the repository is copied to the target. Names that begin with the target's path stay here:
// the target may be this registry.
func (r *Replicator) selects(t *Target, name oci.Name) bool {
	prefix := strings.Trim(t.URL.Path, "/")
	return t.Repositories.Match(name) && (prefix == "" || !strings.HasPrefix(string(name), prefix+"/")) && (r.Caches == nil || !r.Caches(name))
}

// Status describes a target after its last turn, on any replica.
type Status struct {
	Name    string    `json:"name"`
	URL     string    `json:"url"`
	Waiting int       `json:"waiting"`         // changes
	Behind  time.Time `json:"behind,omitzero"` // since when something waits; zero = the target has everything
	Error   string    `json:"error,omitempty"` // of the last turn
	At      time.Time `json:"at,omitzero"`     // when that ended; zero = there was none
	marks   []mark
}

// String describes how far the target is.
func (s *Status) String() string {
	switch {
	case s.Behind.IsZero() && s.At.IsZero():
		return "nothing was copied yet"
	case s.Behind.IsZero():
		return "complete at " + s.At.UTC().Format(time.RFC3339)
	}
	text := plural.Of(s.Waiting, "change") + " waiting, behind since " + s.Behind.UTC().Format(time.RFC3339) + ": " + s.Error
	return strings.TrimSuffix(text, ": ")
}

// Status returns the status, with the marks that wait now.
func (r *Replicator) Status(ctx context.Context, t *Target) (s Status, err error) {
	doc := r.document(t)
	if err = doc.Refresh(ctx); err == nil {
		last, _ := doc.Last()
		s = *last
		s.marks, err = r.queued(ctx, t)
	}
	s.Name, s.URL, s.Waiting = t.Name, t.URL.Redacted(), len(s.marks)
	return s, err
}

func (r *Replicator) document(t *Target) *sharedstate.Document[Status] {
	return sharedstate.New[Status](r.Store, layout.Replication+"/"+t.Name+"/status")
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
		time.Sleep(Pause)
		s, err = r.Turn(ctx, t, false)
	}
	return s, err
}

// turn is one turn.
type turn struct {
	*Replicator
	target   *Target
	client   *auth.Client
	blobs    sync.Map // oci.Digest → path of a repository there that has it
	end      time.Time
	failures atomic.Int32 // in succession
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
	run := &turn{Replicator: r, target: t, client: newClient(t, r.UserAgent), end: began.Add(maxTurn)}
	defer run.client.Client.CloseIdleConnections()
	failed := run.copy(ctx, s.marks, fresh)
	if _, ok := errors.AsType[*url.Error](failed); ok && !errors.Is(failed, storage.ErrUnavailable) { // which a blob here may be
		failed = fmt.Errorf("the target can't be reached: %w", failed)
	}
	list, err := r.queued(ctx, t)
	if err == nil {
		err = r.document(t).Update(ctx, func(last *Status) error {
			s.Waiting, s.At, s.Behind = len(list), time.Now(), cmp.Or(last.Behind, began)
			switch {
			case failed != nil:
				s.Error = failed.Error()
			case len(list) == 0:
				s.Behind, s.Error = time.Time{}, ""
			case !fresh:
				s.Error = ""
			}
			*last = s
			return nil
		})
	}
	return s, errors.Join(failed, err, ctx.Err()) // when that has ended, marks are left without an error
}

// copy serves marks, several repositories at a time: those of pushes first, then comparisons, and last what failed before, unless fresh
// is set. Each in any order, so that none waits for one that fails.
func (run *turn) copy(ctx context.Context, list []mark, fresh bool) (err error) {
	var ranks [3][]mark
	for _, m := range list {
		rank := 0
		if _, failed := run.target.failing.Load(m.key); failed {
			rank = 2
		} else if m.tag == "" {
			rank = 1
		}
		ranks[rank] = append(ranks[rank], m)
	}
	run.target.failing.Clear() // of what another replica has served
	for _, m := range ranks[2] {
		run.target.failing.Store(m.key, true)
	}
	if fresh {
		ranks[2] = nil
	}
	for _, list := range ranks {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		byName := map[oci.Name][]mark{}
		for _, m := range list {
			byName[m.name] = append(byName[m.name], m)
		}
		var group errgroup.Group
		group.SetLimit(parallel)
		for name, list := range byName {
			group.Go(func() error { return run.repository(ctx, name, list) })
		}
		err = cmp.Or(err, group.Wait())
	}
	return err
}

// repository serves marks of one repository, and removes those of what hasn't changed again.
func (run *turn) repository(ctx context.Context, name oci.Name, list []mark) error {
	c := &copying{turn: run, from: peeked{run.Registry.Repository(name)}, to: newRepository(run.target, run.client, &run.blobs, name)}
	c.copier = imagecopy.New(imagecopy.Pulled{Puller: c.from}, c.to, false, &imagecopy.Report{})
	for _, m := range list {
		if m.version != "" && time.Now().Before(run.end) && c.serve(ctx, m.tag) == nil { // otherwise the mark stays, as it does if it can't be removed
			_ = run.Store.Apply(ctx, nil, storage.Stage{{Key: m.key, Delete: true, If: storage.IfVersion(m.version)}})
		}
	}
	return c.failed
}

// copying is one repository in a turn.
type copying struct {
	*turn
	from   peeked
	to     *repository
	copier *imagecopy.Copier
	failed error // the first failure
}

// peeked is a repository of this registry in which reading a manifest doesn't count as a pull.
type peeked struct{ registry.Repository }

// Manifest implements [registry.Puller].
func (p peeked) Manifest(ctx context.Context, what oci.Reference) (*registry.Manifest, error) {
	return p.Peek(ctx, what)
}

// errAway ends a turn.
var errAway = errors.New("the target seems to be away")

// serve copies what a mark with the tag stands for.
func (c *copying) serve(ctx context.Context, tag oci.Tag) (err error) {
	switch {
	case c.failures.Load() >= maxFailures || ctx.Err() != nil:
		return errAway
	case !c.selects(c.target, c.from.Name()): // the configuration has changed
	case tag == "":
		err = c.all(ctx)
	default:
		err = c.reference(ctx, tag)
	}
	key := markKey(c.target.Name, c.from.Name(), tag)
	switch {
	case err == nil:
		c.failures.Store(0)
		c.target.failing.Delete(key)
	case !errors.Is(err, errAway):
		c.failures.Add(1)
		c.target.failing.Store(key, true)
		c.failed = cmp.Or(c.failed, fmt.Errorf("%s: %s: %w", c.from.Name(), cmp.Or(tag, "all tags"), err))
	}
	return err
}

// all compares the whole repository. A tag that fails is marked by itself, so the repository needs no other
// comparison for it.
func (c *copying) all(ctx context.Context) error {
	list, _, err := c.from.Tags(ctx, -1, "")
	if err != nil && !oci.HasCode(err, oci.CodeNameUnknown) {
		return err
	}
	gone, err := c.gone(ctx, list)
	if err != nil {
		return err
	}
	for _, t := range slices.Concat(list, gone) {
		key := markKey(c.target.Name, c.from.Name(), oci.Tag(t))
		if _, failed := c.target.failing.Load(key); failed {
			continue // it is marked
		}
		err := c.serve(ctx, oci.Tag(t))
		if err != nil && !errors.Is(err, errAway) {
			err = c.put(ctx, []string{key})
		}
		if err != nil {
			c.target.failing.Delete(key) // it isn't marked
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
	gone, err = ref.Tags(ctx, c.to)
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); err != nil && (!ok || answer.StatusCode != http.StatusNotFound) {
		return nil, err
	}
	gone = slices.DeleteFunc(gone, func(t string) bool {
		_, found := slices.BinarySearch(here, t)
		return found || listed(oci.Tag(t)) != ""
	})
	if n := len(gone) + len(here); len(gone) > maxGone && len(gone) > n/2 {
		if exists, err := c.from.HasManifests(ctx); exists || err != nil { // it wasn't deleted
			return nil, cmp.Or(err, fmt.Errorf("%d of %d tags at the target are not here, as after a start with another storage: delete them there if that is right", len(gone), n))
		}
	}
	return gone, nil
}

// reference brings a tag at the target to what it is here. If it stands for a manifest that was pushed by digest, that is
// copied if the target has what it refers to; others come with their tags.
func (c *copying) reference(ctx context.Context, tag oci.Tag) error {
	what := oci.Reference{Tag: tag}
	if d := listed(tag); d != "" {
		what = oci.Reference{Digest: d}
	}
	m, err := c.from.Peek(ctx, what)
	if oci.IsUnknown(err) {
		return c.missing(ctx, what.Tag)
	}
	if err != nil {
		return err
	}
	at := cmp.Or(what.Tag, oci.Tag(m.Subject), oci.Tag(m.Digest))
	there, err := c.to.Resolve(ctx, string(at))
	absent := errors.Is(err, errdef.ErrNotFound)
	switch {
	case err != nil && !absent:
		return err
	case absent && what.Tag == "":
		return nil
	case what.Tag == "", oci.Digest(there.Digest) == m.Digest:
		_, err = c.copier.Copy(ctx, &m.Descriptor, nil)
	default:
		_, err = c.copier.Copy(ctx, &m.Descriptor, []oci.Tag{tag})
	}
	return err
}

// missing deletes a tag that isn't here at a target with deletions, and not what it points at, which others may need.
func (c *copying) missing(ctx context.Context, tag oci.Tag) error {
	if _, err := c.from.TagModified(ctx, tag); tag == "" || !c.target.Deletions || !oci.IsUnknown(err) { // only its manifest is missing
		return nil
	}
	err := c.to.Manifests().Delete(ctx, descriptor("", oci.Digest(tag), 0)) // the library has no request of its own for tags
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the target does not delete tags: %w", err)
	}
	c.Log.Info("deleted a tag at a target", zap.String("target", c.target.Name), zap.String("repository", string(c.from.Name())), zap.String("tag", string(tag)))
	return nil
}

// listed returns the manifest of which clients keep the list of referrers in the tag
// (distribution-spec "Referrers Tag Schema"), "" for any other tag.
func listed(tag oci.Tag) oci.Digest {
	d, _ := oci.ParseDigest(strings.Replace(string(tag), "-", ":", 1))
	return d
}
