package notify

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
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
	ID         string `json:"id"`
	Action     Action `json:"action"`
	Repository string `json:"repository"`
	Tag        string `json:"tag,omitempty"`
	Digest     string `json:"digest,omitempty"`
}

// Read tells what waits below the directory of the queues. It changes nothing and
// locks nothing, so it may run beside a registry, and see what is gone a moment
// later. A directory that is not there has nothing.
func Read(base string) ([]Report, error) {
	names, err := homes(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Report
	for _, name := range names {
		reports, err := readHome(filepath.Join(base, name))
		if err != nil {
			return nil, err
		}
		all = append(all, reports...)
	}
	return all, nil
}

func readHome(dir string) ([]Report, error) {
	names, err := endpointsIn(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	serving := isLocked(dir)
	var reports []Report
	for _, name := range names {
		r := Report{Endpoint: name, Home: filepath.Base(dir), Serving: serving}
		if err := r.read((&home{dir: dir}).endpointDir(name)); err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// isLocked says whether the home's process lives. Asking takes the lock for a
// moment; who wants it then tries again.
func isLocked(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		return false
	}
	lock, err := lockHome(dir)
	if err != nil {
		return true
	}
	lock.Close()
	return false
}

func (r *Report) read(dir string) (err error) {
	if r.State, err = readState(dir); err != nil {
		return err
	}
	var first record
	note := func(count *int) func(record, place) error {
		return func(x record, _ place) error {
			*count++
			r.Bytes += x.size()
			if first.seq == 0 || x.seq < first.seq {
				first = x
			}
			return nil
		}
	}
	if err := readLane(filepath.Join(dir, changesDir), note(&r.Changes)); err != nil {
		return err
	}
	if err := readLane(filepath.Join(dir, pullsDir), note(&r.Pulls)); err != nil {
		return err
	}
	if first.seq != 0 {
		r.Oldest, r.First = first.at, summary(first.body)
	}
	return nil
}

func summary(body []byte) *Summary {
	var e struct {
		Events []struct {
			ID     string
			Action Action
			Target struct{ Repository, Tag, Digest string }
		}
	}
	if json.Unmarshal(body, &e) != nil || len(e.Events) == 0 {
		return nil
	}
	one := e.Events[0]
	return &Summary{one.ID, one.Action, one.Target.Repository, one.Target.Tag, one.Target.Digest}
}

// place is where a record ends in a lane on the disk.
type place struct {
	segment uint64
	offset  int64
}

// readLane calls each with the records that wait in a lane on the disk, and
// changes nothing. A segment that is removed meanwhile had nothing left.
func readLane(dir string, each func(r record, end place) error) error {
	ids, err := segmentIDs(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	at, offset, err := readCursorFile(filepath.Join(dir, cursorName))
	if err != nil {
		return err
	}
	for _, id := range ids {
		from := int64(0)
		if id == at {
			from = offset
		}
		if id < at {
			continue
		}
		var failed error
		_, _, err := readSegment(filepath.Join(dir, segmentName(id)), from, func(offset int64, r record) {
			if failed == nil {
				failed = each(r, place{id, offset + r.size()})
			}
		})
		if err = errors.Join(ignoreAbsent(err), failed); err != nil {
			return err
		}
	}
	return nil
}

func readCursorFile(path string) (id uint64, offset int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, ignoreAbsent(err)
	}
	defer f.Close()
	id, offset = parseCursor(f)
	return id, offset, nil
}

// leaveBehind moves the cursor of a lane that nobody uses to the place.
func leaveBehind(dir string, p place) error {
	f, err := os.OpenFile(filepath.Join(dir, cursorName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(encodeCursor(p.segment, p.offset), 0)
	return errors.Join(err, f.Close())
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
