package main

import (
	"context"
	"errors"

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
	taken := []string{"limits", "logging.level", "hook.registry"}
	if cfg.Admin.Name == r.cfg.Admin.Name {
		if err := r.parts.service.SetAdmin(ctx, adminOf(cfg)); err != nil {
			r.log.Error("cannot change the administrator's password", zap.Error(err))
		} else {
			r.cfg.Admin, taken = cfg.Admin, append(taken, "admin")
		}
	}
	if broken == nil {
		taken = append(taken, "certificates")
	}
	r.log.Info("reloaded the configuration", zap.Strings("settings", taken))
	if other := settings.Changed(r.cfg, *cfg); len(other) > 0 {
		r.log.Warn("other settings have changed; they take effect at the next start", zap.Strings("settings", other))
	}
}
