package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/notify"
	"slipway/shared/build"
)

// openNotifications returns nil without endpoints.
func openNotifications(cfg *config.Config, b build.Info, log *zap.Logger, metrics *prometheus.Registry) (*notify.Notifier, error) {
	o := notify.Options{
		Endpoints: endpoints(cfg.Notifications.Endpoints), Directory: EventQueue(cfg), MaxSize: int64(cfg.Notifications.Queue.MaxSize),
		Version: notify.Version(cfg.Notifications.Events.Version), References: cfg.Notifications.Events.IncludeReferences,
		Addr: sourceAddr(cfg.HTTP.Addr), UserAgent: "slipway-registry/" + b.Version, Log: log,
	}
	if len(o.Endpoints) == 0 {
		return nil, nil //nolint:nilnil // there are no endpoints
	}
	if metrics != nil {
		o.Metrics = notify.NewMetrics(metrics)
	}
	if o.Directory == "" {
		log.Warn("events for notifications wait in memory and are lost when the registry stops; notifications.queue.directory keeps them")
	}
	n, err := notify.New(o)
	if cfg.Notifications.Queue.Directory == "" && (noRoom(err) || cfg.Storage.Maintenance.ReadOnly.Enabled && notAllowed(err)) {
		log.Warn("the storage cannot be written, so events for notifications wait in memory and are lost when the registry stops; notifications.queue.directory keeps them", zap.Error(err))
		o.Directory = ""
		n, err = notify.New(o)
	}
	if notAllowed(err) {
		uid, gid := os.Geteuid(), os.Getegid()
		err = fmt.Errorf("notifications.queue.directory: uid %d, which the registry runs as, may not write there (%w): mkdir -p %s && chown -R %d:%d %[3]s", uid, err, o.Directory, uid, gid)
	}
	return n, err
}

// noRoom reports whether no user could write there.
func noRoom(err error) bool {
	return errors.Is(err, syscall.EROFS) || notify.NoRoom(err)
}

// notAllowed reports whether another user could.
func notAllowed(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}

// EventQueue returns the directory of the queue, "" for memory.
func EventQueue(cfg *config.Config) string {
	switch {
	case cfg.Notifications.Queue.Directory != "":
		return cfg.Notifications.Queue.Directory
	case cfg.Storage.Filesystem != nil:
		return filepath.Join(cfg.Storage.Filesystem.RootDirectory, layout.Events)
	default:
		return ""
	}
}

// endpoints returns those that are not disabled.
func endpoints(configured []config.Endpoint) []notify.Endpoint {
	var all []notify.Endpoint
	for i := range configured {
		if c := &configured[i]; !c.Disabled {
			all = append(all, endpoint(c))
		}
	}
	return all
}

func endpoint(c *config.Endpoint) notify.Endpoint {
	e := notify.Endpoint{
		Name: c.Name, URL: c.URL, Headers: c.Header(), HeadersFile: c.HeadersFile,
		Timeout: cmp.Or(c.Timeout, 5*time.Second), Threshold: cmp.Or(c.Threshold, 10), Backoff: cmp.Or(c.Backoff, time.Second),
		Ignore: notify.Ignore{MediaTypes: append(append([]string{}, c.IgnoredMediaTypes...), c.Ignore.MediaTypes...)},
	}
	if !c.Secret.Empty() {
		e.Secret = []byte(c.Secret.Reveal())
	}
	for _, a := range c.Ignore.Actions {
		e.Ignore.Actions = append(e.Ignore.Actions, notify.Action(a))
	}
	return e
}

// sourceAddr returns the name of this machine with the port that the registry
// listens on, as distribution sends it.
func sourceAddr(addr string) string {
	name, err := os.Hostname()
	if err != nil {
		return addr
	}
	if _, port, err := net.SplitHostPort(addr); err == nil {
		return net.JoinHostPort(name, port)
	}
	return name
}
