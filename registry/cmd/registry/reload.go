package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/shared/logging"
	"slipway/shared/server"
)

// hangups delivers SIGHUP, which without it ends the process and cuts uploads off.
func hangups() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// reloader applies what can change without a restart: certificates, passwords, access
// rules and the level of the log.
type reloader struct {
	cfg     config.Config // in force
	load    func() (*config.Config, error)
	level   *zap.AtomicLevel
	gate    *gate
	acts    *audit.Log // nil = none
	servers []*server.Server
	log     *zap.Logger
}

func (r *reloader) run(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-signals:
			r.reload()
		case <-ctx.Done():
			return
		}
	}
}

func (r *reloader) reload() {
	var broken error
	for _, s := range r.servers {
		broken = errors.Join(broken, s.Reload())
	}
	r.gate.reload()
	r.acts.Reopen()
	cfg, err := r.load()
	r.acts.Write(audit.Record{Time: time.Now(), Event: "reload", Who: "registry", From: operator(), Reference: "configuration", Result: audit.ResultOf(err)})
	if err != nil {
		r.log.Error("cannot reload the configuration; the former one stays", zap.Error(err))
		return
	}
	if level, err := logging.ParseLevel(cfg.Log.Level); err == nil {
		r.level.SetLevel(level)
	}
	r.cfg.Log.Level = cfg.Log.Level
	if r.cfg.Access != nil && r.gate.takeRules(cfg) {
		r.cfg.Access = cfg.Access
	}
	r.takeWorkloads(cfg)
	if broken == nil {
		r.log.Info("reloaded certificates, passwords, access rules, workloads and the log level")
	} else {
		r.log.Info("reloaded passwords, access rules, workloads and the log level")
	}
	if !reflect.DeepEqual(*cfg, r.cfg) {
		r.log.Warn("other settings have changed; they take effect at the next start")
	}
}

// takeWorkloads applies the workloads of the token service, if there is one before and
// after the change.
func (r *reloader) takeWorkloads(cfg *config.Config) {
	builtin := func(c *config.Config) *config.BuiltinService {
		if c.Auth == nil || c.Auth.Service == nil {
			return nil
		}
		return c.Auth.Service.Builtin
	}
	now, next := builtin(&r.cfg), builtin(cfg)
	if now == nil || next == nil {
		return
	}
	r.gate.takeWorkloads(next.Workloads)
	users, service := *r.cfg.Auth, *now // copies: the configuration of the start does not change
	service.Workloads = next.Workloads
	users.Service = &config.TokenService{Builtin: &service}
	r.cfg.Auth = &users
}
