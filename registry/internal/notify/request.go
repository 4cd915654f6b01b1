package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// `registry events` asks the process that has a home to do something by a file in
// it, which that process removes when it is done, or gives another ending when it
// cannot. Where the process is dead, the asker locks the home and does it himself.
const (
	requestPrefix = "request-"
	requestSuffix = ".json"
	failedSuffix  = ".failed"
)

// request is what is asked for.
type request struct {
	Op       string    `json:"op"` // opRetry or opDrop
	Endpoint string    `json:"endpoint"`
	Until    time.Time `json:"until"` // opDrop: events that happened later stay
}

const (
	opRetry = "retry"
	opDrop  = "drop"
)

// requestsPoll is how often a process looks for requests.
const requestsPoll = time.Second

// obey does what is asked for in our home.
func (n *Notifier) obey() {
	requests, _ := filepath.Glob(filepath.Join(n.home.dir, requestPrefix+"*"+requestSuffix)) // the pattern is valid
	for _, path := range requests {
		n.answer(path)
	}
}

// answer does what the request in the file asks for.
func (n *Notifier) answer(path string) {
	var r request
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err == nil {
		err = n.do(r)
	}
	if err == nil {
		_ = os.Remove(path) // done again otherwise, which does no harm
		return
	}
	n.log.Warn("cannot do what `registry events` asked for", zap.Error(err))
	_ = os.Rename(path, path+failedSuffix)
}

func (n *Notifier) do(r request) (err error) {
	e := n.endpoint(r.Endpoint)
	if r.Op == opDrop {
		count := 0
		if e == nil {
			count, err = dropIn(endpointDir(n.home.dir, r.Endpoint), r.Until, n.log)
		} else {
			count = e.queue.drop(r.Until)
		}
		n.log.Warn("dropped events, as `registry events drop` asked", zap.String("endpoint", r.Endpoint), zap.Int("events", count))
	}
	if e != nil {
		e.tryNow()
	}
	return err
}

// dropIn drops from a queue that nobody uses.
func dropIn(dir string, until time.Time, log *zap.Logger) (int, error) {
	q, err := openQueue(dir, segmentSize, log)
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
	return ask(ctx, base, request{Op: opRetry, Endpoint: endpoint})
}

// Drop removes the events that wait for the endpoint now. It returns how many there
// are.
func Drop(ctx context.Context, base, endpoint string) (int, error) {
	return ask(ctx, base, request{Op: opDrop, Endpoint: endpoint, Until: time.Now()})
}

func ask(ctx context.Context, base string, r request) (events int, err error) {
	reports, err := Read(base)
	if err != nil {
		return 0, err
	}
	for _, report := range reports {
		if report.Endpoint != r.Endpoint || report.Changes+report.Pulls == 0 {
			continue
		}
		dir := filepath.Join(base, report.Home)
		lock, err := lockHome(dir)
		switch {
		case err == nil && r.Op == opDrop:
			_, err = dropIn(endpointDir(dir, r.Endpoint), r.Until, zap.NewNop())
			lock.Close()
		case err == nil:
			lock.Close()
			continue // nobody is there to try
		case errors.Is(err, errTaken):
			err = askLiving(ctx, dir, r)
		}
		if err != nil {
			return events, err
		}
		events += report.Changes + report.Pulls
	}
	return events, nil
}

// askLiving waits until the process has done it. What is asked for may be read by
// everybody who may enter the home: the asker may be root, the process is not.
func askLiving(ctx context.Context, dir string, r request) error {
	path := filepath.Join(dir, requestPrefix+newHomeName()+requestSuffix)
	if err := writeRequest(path, r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, obeyTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return failedRequest(path, dir)
		}
		select {
		case <-ctx.Done():
			_ = os.Remove(path) // nobody expects it to be done later
			return fmt.Errorf("the registry that has %s did not answer within %s", dir, obeyTimeout)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// writeRequest makes the file of a request, whole.
func writeRequest(path string, r request) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := path + ".tmp"
	err = os.WriteFile(temp, content, 0o600)
	if err == nil {
		err = os.Chmod(temp, 0o644)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// failedRequest says whether a request that is gone was done.
func failedRequest(path, dir string) error {
	if os.Remove(path+failedSuffix) == nil {
		return fmt.Errorf("the registry that has %s could not do it; its log says why", dir)
	}
	return nil
}
