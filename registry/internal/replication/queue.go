package replication

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	maxPending = 10_000 // marks in memory; beyond, repositories are marked whole
	maxMarks   = 50_000 // that one turn reads
	perStage   = 100    // marks that are written or deleted together
	gather     = 200 * time.Millisecond
	retryMarks = 5 * time.Second
)

// mark notes that a tag or a manifest of a repository has changed, or, with neither, that the
// whole repository has. It is an object in the storage, so it outlives the process and
// any replica can serve it. There is one for each thing that changed, however often it did.
type mark struct {
	key, version string
	repository   oci.Name
	tag          oci.Tag
	digest       oci.Digest
}

// tagEnd ends the keys of tags, because the driver of files doesn't list names that end in .tmp.
const tagEnd = "/_"

func marks(target string) string { return layout.Replication + "/" + target + "/queue" }

func markKey(target string, name oci.Name, tag oci.Tag, d oci.Digest) string {
	at := marks(target) + "/" + string(name)
	switch {
	case tag != "":
		return at + "/_tags/" + string(tag) + tagEnd
	case d != "":
		return at + "/_manifests/" + string(d.Algorithm()) + "/" + d.Hex()
	default:
		return at + "/_all"
	}
}

func parseMark(target string, at storage.Info) (m mark, ok bool) {
	name, what, found := strings.Cut(strings.TrimPrefix(at.Key, marks(target)+"/"), "/_")
	if !found {
		return mark{}, false
	}
	m = mark{key: at.Key, version: at.Version}
	var err error
	m.repository, err = oci.ParseName(name)
	kind, rest, _ := strings.Cut(what, "/")
	switch {
	case err != nil:
	case kind == "tags":
		m.tag, err = oci.ParseTag(strings.TrimSuffix(rest, tagEnd))
	case kind == "manifests":
		m.digest, err = oci.ParseDigest(strings.Replace(rest, "/", ":", 1))
	case what != "all":
		return mark{}, false
	}
	return m, err == nil
}

// content makes each version of a mark another one: stores may compare contents.
func content() []byte { return []byte(rand.Text()) }

// queued returns marks, at most max.
func queued(ctx context.Context, store storage.Store, target string, limit int) (list []mark, err error) {
	for info, err := range store.List(ctx, marks(target), storage.ListOptions{Flat: true, Max: limit}) {
		if err != nil {
			return nil, err
		}
		if m, ok := parseMark(target, info); ok {
			list = append(list, m)
		}
		if len(list) == limit {
			break
		}
	}
	return list, nil
}

// remove removes marks whose things haven't changed again.
func remove(ctx context.Context, store storage.Store, list []mark) error {
	for _, m := range list {
		if m.version == "" {
			continue // too young to be told from the next one
		}
		err := store.Apply(ctx, nil, storage.Stage{{Key: m.key, Delete: true, If: storage.IfVersion(m.version)}})
		if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotExist) {
			return err
		}
	}
	return nil
}

// put writes marks.
func put(ctx context.Context, store storage.Store, keys []string) error {
	for len(keys) > 0 {
		n := min(len(keys), perStage)
		var stage storage.Stage
		for _, key := range keys[:n] {
			stage = append(stage, storage.Change{Key: key, Content: content()})
		}
		if err := store.Apply(ctx, nil, stage); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// Recorder marks what changes for the targets that copy on push. It is safe for concurrent use.
type Recorder struct {
	o    Options
	work chan struct{}

	mu      sync.Mutex
	pending map[string]bool // keys of marks that aren't written yet
}

// NewRecorder returns a Recorder whose Run must be called. It returns nil if no target copies on push.
func NewRecorder(o Options) *Recorder {
	r := &Recorder{o: o, work: make(chan struct{}, 1), pending: map[string]bool{}}
	for _, t := range o.Targets {
		if t.OnPush {
			return r
		}
	}
	return nil
}

// Changed notes that tags of a repository, or else a manifest of it, have changed; the whole repository if there are neither. It does
// no I/O: a push doesn't wait for its mark.
func (r *Recorder) Changed(name oci.Name, d oci.Digest, tags []oci.Tag) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.o.Targets {
		switch {
		case !t.OnPush || !r.o.selects(t, name):
		case len(r.pending) >= maxPending:
			r.pending[markKey(t.Name, name, "", "")] = true
		case len(tags) == 0:
			r.pending[markKey(t.Name, name, "", d)] = true
		default:
			for _, tag := range tags {
				r.pending[markKey(t.Name, name, tag, "")] = true
			}
		}
	}
	if len(r.pending) > 0 {
		wake(r.work)
	}
}

// Run writes the marks until ctx ends, and then those that are left.
func (r *Recorder) Run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-r.work:
		case <-again:
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryMarks)
			defer cancel()
			r.write(ctx)
			return
		}
		again = nil
		if !r.write(ctx) {
			again = time.After(retryMarks)
		}
	}
}

func (r *Recorder) write(ctx context.Context) bool {
	r.mu.Lock()
	keys := make([]string, 0, len(r.pending))
	for key := range r.pending {
		keys = append(keys, key)
	}
	clear(r.pending)
	r.mu.Unlock()
	if err := put(ctx, r.o.Store, keys); err != nil {
		r.o.Log.Warn("cannot note what to replicate; trying again", zap.Error(err))
		r.mu.Lock()
		for _, key := range keys {
			r.pending[key] = true
		}
		r.mu.Unlock()
		return false
	}
	for _, t := range r.o.Targets {
		wake(t.wake)
	}
	return true
}

// wake sends without waiting: one value in the channel is enough.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
