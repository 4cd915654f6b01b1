package replication

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	maxMarks = 50_000           // that one turn reads
	perStage = 100              // marks that are written together
	putMarks = 15 * time.Second // how long a push waits for its marks

	// Pause is the time from a mark to the turn: for what belongs to one push, and until marks have versions.
	Pause = 300 * time.Millisecond
)

// mark notes that a tag of a repository has changed, or, without one, that anything in it may have. A tag that names a digest
// stands for that manifest. A mark is an object in the storage, so it outlives the process and any replica
// can serve it. There is one for each thing that changed, however often it did.
type mark struct {
	key, version string // the version is "" if the mark is too young to be told from the next one
	name         oci.Name
	tag          oci.Tag
}

func marks(target string) string { return layout.Replication + "/" + target + "/queue" }

// markKey returns a key with an underscore at its end: the driver of files doesn't list names that end in .tmp.
func markKey(target string, name oci.Name, tag oci.Tag) string {
	return marks(target) + "/" + string(name) + "/_" + string(tag) + "_"
}

// queued returns the marks of a target.
func (r *Replicator) queued(ctx context.Context, t *Target) (list []mark, err error) {
	for info, err := range r.Store.List(ctx, marks(t.Name), storage.ListOptions{Flat: true, Max: maxMarks}) {
		if err != nil {
			return nil, err
		}
		dir, tag, _ := strings.Cut(strings.TrimPrefix(info.Key, marks(t.Name)+"/"), "/_")
		m := mark{info.Key, info.Version, oci.Name(dir), oci.Tag(strings.TrimSuffix(tag, "_"))}
		if m.key == markKey(t.Name, m.name, m.tag) && len(list) < maxMarks {
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

// Changed marks tags of a repository, or else a manifest of it; the whole repository if there are
// neither. It does nothing without a Replicator.
func (r *Replicator) Changed(name oci.Name, d oci.Digest, tags []oci.Tag) {
	if r == nil {
		return
	}
	if len(tags) == 0 {
		tags = []oci.Tag{oci.Tag(strings.Replace(string(d), ":", "-", 1))}
	}
	var keys []string
	for _, t := range r.Targets {
		if t.OnPush && r.selects(t, name) {
			for _, tag := range tags {
				keys = append(keys, markKey(t.Name, name, tag))
			}
			defer time.AfterFunc(Pause, t.wake)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), putMarks) // a client that hangs up has pushed
	defer cancel()
	if err := r.put(ctx, keys); err != nil {
		r.Log.Error("cannot note what to replicate; the next comparison copies it", zap.String("repository", string(name)), zap.Error(err))
	}
}

// wake sends without waiting: one value in the channel is enough.
func (t *Target) wake() {
	select {
	case t.Woken <- struct{}{}:
	default:
	}
}
