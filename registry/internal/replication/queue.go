package replication

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	maxMarks   = 50_000 // that one turn reads
	perStage   = 100    // marks that are written together
	retryMarks = 5 * time.Second
	gather     = 300 * time.Millisecond // from a mark to the turn, for what belongs to one push
)

// mark notes that a tag of a repository has changed, or, without one, that anything in it may have. A tag that names a digest
// stands for that manifest. A mark is an object in the storage, so it outlives the process and any replica
// can serve it. There is one for each thing that changed, however often it did.
type mark struct {
	key, version string // the version is "" if the mark is too young to be told from the next one
	name         oci.Name
	tag          oci.Tag
}

func marks(target string) string { return layout.Replication + "/" + target + "/queue/" }

// markKey returns a key with an underscore at its end: the driver of files doesn't list names that end in .tmp.
func markKey(target string, name oci.Name, tag oci.Tag) string {
	return marks(target) + string(name) + "/_" + string(tag) + "_"
}

func parseMark(target string, at storage.Info) (m mark, ok bool) {
	dir, tag, _ := strings.Cut(strings.TrimPrefix(at.Key, marks(target)), "/_")
	name, err := oci.ParseName(dir)
	m = mark{at.Key, at.Version, name, oci.Tag(strings.TrimSuffix(tag, "_"))}
	if err == nil && m.tag != "" && listed(m.tag) == "" {
		_, err = oci.ParseTag(string(m.tag))
	}
	return m, err == nil && m.key == markKey(target, name, m.tag)
}

// queued returns the marks of a target.
func (r *Replicator) queued(ctx context.Context, t *Target) (list []mark, err error) {
	for info, err := range r.Store.List(ctx, strings.TrimSuffix(marks(t.Name), "/"), storage.ListOptions{Flat: true, Max: maxMarks}) {
		if err != nil {
			return nil, err
		}
		if m, ok := parseMark(t.Name, info); ok && len(list) < maxMarks {
			list = append(list, m)
		}
	}
	return list, nil
}

// put writes marks. The content makes each version another one, as stores may compare contents.
func (r *Replicator) put(ctx context.Context, keys []string) error {
	for part := range slices.Chunk(keys, perStage) {
		var stage storage.Stage
		for _, key := range part {
			stage = append(stage, storage.Change{Key: key, Content: []byte(rand.Text())})
		}
		if err := r.Store.Apply(ctx, nil, stage); err != nil {
			return err
		}
	}
	return nil
}

// Changed notes that tags of a repository, or else a manifest of it, have changed; the whole repository if there are
// neither. It does no I/O: a push doesn't wait for its mark, which Run writes.
func (r *Replicator) Changed(name oci.Name, d oci.Digest, tags []oci.Tag) {
	if len(tags) == 0 {
		tags = []oci.Tag{oci.Tag(strings.Replace(string(d), ":", "-", 1))}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.Targets {
		if t.OnPush && r.selects(t, name) {
			for _, tag := range tags {
				r.pending[markKey(t.Name, name, tag)] = true
			}
		}
	}
	wake(r.work)
}

// Run writes the marks until ctx ends, and then those that are left.
func (r *Replicator) Run(ctx context.Context) {
	for {
		select {
		case <-r.work:
			r.write(ctx)
		case <-ctx.Done():
			r.write(context.WithoutCancel(ctx))
			return
		}
	}
}

func (r *Replicator) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, retryMarks)
	defer cancel()
	r.mu.Lock()
	keys := r.pending
	r.pending = map[string]bool{}
	r.mu.Unlock()
	if err := r.put(ctx, slices.Collect(maps.Keys(keys))); err != nil {
		r.Log.Warn("cannot note what to replicate; trying again", zap.Error(err))
		r.mu.Lock()
		maps.Copy(r.pending, keys)
		r.mu.Unlock()
		time.AfterFunc(retryMarks, func() { wake(r.work) })
	}
	for _, t := range r.Targets {
		time.AfterFunc(gather, func() { wake(t.Woken) })
	}
}

// wake sends without waiting: one value in the channel is enough.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
