package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
)

// `registry events` asks the process that has a home to do something by an empty file
// in an endpoint's directory, which that process removes when it is done, or gives another
// ending when it cannot. The file's time says when it was asked. Where the process is
// dead, the asker locks the home and does it himself.
const (
	opRetry      = "retry" // try now
	opDrop       = "drop"  // forget what had happened until then
	failedSuffix = ".failed"
)

// obey does what is asked for in our homes, of which it lets go of the empty ones.
func (n *Notifier) obey() {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	n.adopted = slices.DeleteFunc(n.adopted, n.release)
	for _, h := range n.homes() {
		names, _ := endpointsIn(h.dir) // the next time, perhaps
		for _, name := range names {
			for _, op := range []string{opRetry, opDrop} {
				path := filepath.Join(endpointDir(h.dir, name), op)
				info, err := os.Stat(path)
				if err != nil {
					continue
				}
				if err := n.do(op, filepath.Dir(path), name, info.ModTime()); err != nil {
					n.opts.Log.Warn("cannot do what `registry events` asked for", zap.Error(err))
					_ = os.Rename(path, path+failedSuffix)
				}
				_ = os.Remove(path) // done again otherwise, which does no harm
			}
		}
	}
}

func (n *Notifier) do(op, dir, name string, asked time.Time) (err error) {
	e := n.endpoint(name)
	if op == opDrop {
		count := 0
		if e == nil {
			count, err = dropIn(dir, asked, n.opts.Log)
		} else {
			count = e.queue.drop(asked)
		}
		n.opts.Log.Warn("dropped events, as `registry events drop` asked", zap.String("endpoint", name), zap.Int("events", count))
	}
	if e != nil {
		signal(e.again)
	}
	return err
}

// dropIn drops from a queue that nobody uses.
func dropIn(dir string, until time.Time, log *zap.Logger) (int, error) {
	q, err := openQueue(dir, fileSize, nil, log)
	if err != nil {
		return 0, err
	}
	count := q.drop(until)
	return count, q.close()
}

// obeyTimeout is how long a process that lives may take.
const obeyTimeout = 10 * time.Second

// Retry has the endpoint tried now, by every process below base that sends to it.
// It returns for how many events.
func Retry(ctx context.Context, base, endpoint string) (int, error) {
	return ask(ctx, base, endpoint, opRetry)
}

// Drop removes the events that wait for the endpoint now. It returns how many there
// are.
func Drop(ctx context.Context, base, endpoint string) (int, error) {
	return ask(ctx, base, endpoint, opDrop)
}

func ask(ctx context.Context, base, endpoint, op string) (events int, err error) {
	now := time.Now()
	reports, err := Read(base)
	if err != nil {
		return 0, err
	}
	for _, report := range reports {
		if report.Endpoint != endpoint || report.Changes+report.Pulls == 0 {
			continue
		}
		dir := filepath.Join(base, report.Home)
		h, err := lockHome(dir)
		switch {
		case err == nil && op == opDrop:
			_, err = dropIn(endpointDir(dir, endpoint), now, zap.NewNop())
			h.lock.Close()
		case err == nil:
			h.lock.Close()
			continue // nobody is there to try
		case errors.Is(err, errTaken):
			err = askLiving(ctx, filepath.Join(endpointDir(dir, endpoint), op), now)
		}
		if err != nil {
			return events, err
		}
		events += report.Changes + report.Pulls
	}
	return events, nil
}

// askLiving makes the file at path and waits until the process has done it.
func askLiving(ctx context.Context, path string, now time.Time) error {
	err := os.WriteFile(path, nil, 0o600)
	if err == nil {
		err = os.Chtimes(path, now, now)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it was quick
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, obeyTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			break
		}
		select {
		case <-ctx.Done():
			_ = os.Remove(path) // nobody expects it to be done later
			return fmt.Errorf("the registry did not do what %s asks for within %s", path, obeyTimeout)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if os.Remove(path+failedSuffix) == nil {
		return fmt.Errorf("the registry could not do what %s asks for; its log says why", path)
	}
	return nil
}
