package main

import (
	"context"
	"errors"
	"os"
	"sync"

	"go.uber.org/zap"

	"slipway/relay/internal/config"
	settings "slipway/shared/config"
	"slipway/shared/logging"
	"slipway/shared/server"
)

// reloader applies the settings that can change without a restart.
type reloader struct {
	cfg     config.Config // in force
	load    func() (*config.Config, error)
	level   zap.AtomicLevel
	parts   *parts
	servers []*server.Server
	log     *zap.Logger
}

// follow reloads at each signal. stop ends that and blocks until a reload has ended.
func (r *reloader) follow(ctx context.Context, hangups <-chan os.Signal) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		for {
			select {
			case <-hangups:
				r.reload(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

func (r *reloader) reload(ctx context.Context) {
	var broken error
	for _, s := range r.servers {
		broken = errors.Join(broken, s.Reload())
	}
	cfg, err := r.load()
	if err != nil {
		r.log.Error("cannot reload the configuration; the former one stays", zap.Error(err))
		return
	}
	if level, err := logging.ParseLevel(cfg.Logging.Level); err == nil {
		r.level.SetLevel(level)
		r.cfg.Logging.Level = cfg.Logging.Level
	}
	r.parts.service.SetLimits(limitsOf(cfg))
	r.parts.service.SetMaxApplications(cfg.Limits.Applications)
	r.parts.api.SetLimits(int64(cfg.Limits.Body), cfg.Limits.Wait)
	r.cfg.Limits = cfg.Limits
	r.parts.hookSecret.Store(new(cfg.Hook.Registry.Secret.Reveal()))
	r.cfg.Hook = cfg.Hook
	if cfg.Admin.Name == r.cfg.Admin.Name {
		if err := r.parts.service.SetAdmin(ctx, adminOf(cfg)); err != nil {
			r.log.Error("cannot change the administrator's password", zap.Error(err))
		} else {
			r.cfg.Admin = cfg.Admin
		}
	}
	if broken == nil {
		r.log.Info("reloaded certificates, passwords, limits and the log level")
	} else {
		r.log.Info("reloaded passwords, limits and the log level")
	}
	if other := settings.Changed(r.cfg, *cfg); len(other) > 0 {
		r.log.Warn("other settings have changed; they take effect at the next start", zap.Strings("settings", other))
	}
}
