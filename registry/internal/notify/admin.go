package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"slipway/registry/internal/oci"
)

// Report describes the events that wait for one endpoint in one file.
type Report struct {
	Endpoint string `json:"endpoint"`
	File     string `json:"file"`    // "" = the queue is in memory
	Serving  bool   `json:"serving"` // a registry has the file open
	Backlog
	State
}

// Backlog counts the events that wait.
type Backlog struct {
	Changes int      `json:"changes"`         // pushes, mounts and deletions
	Pulls   int      `json:"pulls"`           // in the registry's memory
	Bytes   int64    `json:"bytes"`           // of both
	First   *Summary `json:"first,omitempty"` // the oldest of them; nil = nothing waits
}

// Summary is an event in short.
type Summary struct {
	ID         string      `json:"id"`
	Time       time.Time   `json:"timestamp"`
	Action     Action      `json:"action"`
	Repository oci.Name    `json:"repository"`
	Tag        oci.Tag     `json:"tag,omitempty"`
	Digest     *oci.Digest `json:"digest,omitempty"`
}

func summary(body []byte) *Summary {
	var e envelope
	if json.Unmarshal(body, &e) != nil || len(e.Events) == 0 {
		return nil
	}
	one := &e.Events[0]
	return &Summary{one.ID, one.Timestamp, one.Action, one.Target.Repository, one.Target.Tag, one.Target.Digest}
}

// Read reports what waits in the files of the directory. It asks the registry that
// has a file open, and reads the other files itself. On an error the reports are
// of the files that could be read.
func Read(ctx context.Context, dir string) (all []Report, err error) {
	err = each(dir, true, func(path string, f *file) error {
		var reports []Report
		var err error
		if f == nil {
			err = ask(ctx, path, http.MethodGet, "/", &reports)
		} else {
			reports, err = f.reports()
		}
		all = append(all, reports...)
		return err
	})
	return all, err
}

// Drop removes the events that wait for the endpoint and returns how many there
// were.
func Drop(ctx context.Context, dir, endpoint string) (events int, err error) {
	err = each(dir, false, func(path string, f *file) (err error) {
		var n int
		if f == nil {
			err = ask(ctx, path, http.MethodPost, "/drop?endpoint="+url.QueryEscape(endpoint), &n)
		} else {
			n, err = f.drop(endpoint)
		}
		events += n
		return err
	})
	return events, err
}

// each calls do for each file in the directory, with nil for one that a registry
// has open. A failure doesn't end it.
func each(dir string, readOnly bool, do func(path string, f *file) error) error {
	var errs []error
	paths, _ := filepath.Glob(filepath.Join(dir, fileGlob)) // the pattern is valid
	for _, path := range paths {
		f, err := open(path, readOnly)
		switch {
		case errors.Is(err, bolterrors.ErrTimeout):
			err = do(path, nil)
		case err == nil:
			err = errors.Join(do(path, f), f.close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// reports lists what waits in a file that no registry uses.
func (f *file) reports() (all []Report, err error) {
	names, err := f.endpoints()
	for _, name := range names {
		b, failed := f.backlog(name)
		err = errors.Join(err, failed)
		if b.Changes > 0 {
			all = append(all, Report{Endpoint: name, File: filepath.Base(f.path), Backlog: b})
		}
	}
	return all, err
}

// ask sends a request to the registry that has the file open.
func ask(ctx context.Context, queue, method, path string, answer any) error {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket(queue))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://registry"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("another process has it open and does not answer on this machine: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the registry answers %s: %s", resp.Status, body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// serveAdmin answers `registry events` on a socket next to the file. Its mode keeps
// other users out: only users that may open the file may drop events.
func (n *Notifier) serveAdmin() {
	path := socket(n.file.path)
	_ = os.Remove(path) // of a process that was killed; this one has the lock
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		n.opts.Log.Warn("`registry events` cannot ask this process", zap.Error(err))
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		all, err := n.Reports()
		answer(w, all, err)
	})
	mux.HandleFunc("POST /drop", func(w http.ResponseWriter, r *http.Request) {
		count, err := n.drop(r.FormValue("endpoint"))
		answer(w, count, err)
	})
	n.admin = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = n.admin.Serve(l) }()
}

func answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(value) // the client is gone otherwise
}

// Reports lists the configured endpoints, and the others that events wait for, in this process.
func (n *Notifier) Reports() (all []Report, err error) {
	file := ""
	if n.file != nil {
		file = filepath.Base(n.file.path)
		all, err = n.file.reports()
	}
	all = slices.DeleteFunc(all, func(r Report) bool { return n.endpoint(r.Endpoint) != nil })
	for i := range all {
		all[i].Serving = true
	}
	for _, e := range n.endpoints {
		r := Report{Endpoint: e.name, File: file, Serving: true, Backlog: e.backlog()}
		e.mu.Lock()
		r.State = e.state
		e.mu.Unlock()
		all = append(all, r)
	}
	return all, err
}

func (n *Notifier) drop(endpoint string) (count int, err error) {
	if e := n.endpoint(endpoint); e != nil {
		count, err = e.drop()
	} else {
		count, err = n.file.drop(endpoint)
	}
	n.opts.Log.Warn("dropped events, as `registry events delete` asked", zap.String("endpoint", endpoint), zap.Int("events", count), zap.Error(err))
	return count, err
}
