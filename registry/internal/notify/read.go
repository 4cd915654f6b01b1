package notify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"slipway/registry/internal/oci"
)

// Report is what waits for one endpoint, in the queue of one process.
type Report struct {
	Endpoint string    `json:"endpoint"`
	Home     string    `json:"home"`            // the process's directory
	Serving  bool      `json:"serving"`         // the process lives
	Changes  int       `json:"changes"`         // pushes, mounts and deletions that wait
	Pulls    int       `json:"pulls"`           // pulls that wait
	Bytes    int64     `json:"bytes"`           // of both
	Oldest   time.Time `json:"oldest,omitzero"` // when the first of them happened
	First    *Summary  `json:"first,omitempty"` // the first of them
	State
}

// Summary is an event in short.
type Summary struct {
	ID         string      `json:"id"`
	Action     Action      `json:"action"`
	Repository oci.Name    `json:"repository"`
	Tag        oci.Tag     `json:"tag,omitempty"`
	Digest     *oci.Digest `json:"digest,omitempty"`
}

// Read tells what waits below the directory of the queues, and how the endpoints of
// living processes fare. It changes nothing and locks nothing, so it may run beside a
// registry, and see what is gone a moment later. A directory that is not there has nothing.
func Read(base string) ([]Report, error) {
	names, err := homes(base)
	if err != nil {
		return nil, ignoreAbsent(err)
	}
	var all []Report
	for _, name := range names {
		dir := filepath.Join(base, name)
		endpoints, err := endpointsIn(dir)
		if err := ignoreAbsent(err); err != nil {
			return nil, err
		}
		serving := isLocked(dir)
		for _, endpoint := range endpoints {
			r := Report{Endpoint: endpoint, Home: name, Serving: serving}
			if err := r.read(endpointDir(dir, endpoint)); err != nil {
				return nil, err
			}
			if serving || r.Changes+r.Pulls+r.Dropped > 0 {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// isLocked says whether the home's process lives. Asking takes the lock for a
// moment; who wants it then tries again.
func isLocked(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		return false
	}
	h, err := lockHome(dir)
	if err != nil {
		return true
	}
	h.lock.Close()
	return false
}

func (r *Report) read(dir string) (err error) {
	if r.State, err = readState(dir); err != nil {
		return err
	}
	for kind, count := range map[string]*int{changesDir: &r.Changes, pullsDir: &r.Pulls} {
		l := &eventLog{dir: filepath.Join(dir, kind)}
		if err := l.scan(); err != nil {
			return err
		}
		*count = l.count
		r.Bytes += l.bytes
		if l.count > 0 && (r.Oldest.IsZero() || l.front[0].time.Before(r.Oldest)) {
			r.Oldest, r.First = l.front[0].time, summary(l.front[0].body)
		}
	}
	return nil
}

func summary(body []byte) *Summary {
	var e envelope
	if json.Unmarshal(body, &e) != nil || len(e.Events) == 0 {
		return nil
	}
	one := &e.Events[0]
	return &Summary{one.ID, one.Action, one.Target.Repository, one.Target.Tag, one.Target.Digest}
}
