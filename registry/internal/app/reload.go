package app

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/signature"
	settings "slipway/shared/config"
	"slipway/shared/logging"
	"slipway/shared/server"
)

// reloader applies what can change without a restart: certificates, passwords, access
// rules and the level of the log.
type reloader struct {
	cfg      config.Config // in force
	load     func() (*config.Config, error)
	level    *zap.AtomicLevel
	gate     *gate
	auditLog *audit.Log        // nil = none
	policy   *signature.Policy // nil = none
	servers  []*server.Server
	log      *zap.Logger
}

func (r *reloader) reload() {
	var broken error
	for _, s := range r.servers {
		broken = errors.Join(broken, s.Reload())
	}
	r.gate.reload()
	if rules, err := signatureRules(&r.cfg.Policy); err != nil {
		r.log.Error("cannot read the keys and trusted roots of policy.signatures; the former ones stay", zap.Error(err))
	} else if r.policy != nil {
		r.policy.Replace(rules)
	}
	r.auditLog.Reopen()
	cfg, err := r.load()
	act := audit.Record{Time: time.Now(), Event: "reload", Who: "registry", From: audit.Operator(), Reference: "configuration", Result: audit.ResultOf(err)}
	if err != nil {
		r.auditLog.Write(act)
		r.log.Error("cannot reload the configuration; the former one stays", zap.Error(err))
		return
	}
	before, rules := r.cfg, r.gate.inline.Load()
	defer func() {
		act.Change = r.changes(&before, rules, cfg)
		r.auditLog.Write(act)
	}()
	if level, err := logging.ParseLevel(cfg.Log.Level); err == nil {
		r.level.SetLevel(level)
	}
	r.cfg.Log.Level = cfg.Log.Level
	if r.cfg.Access != nil && r.gate.takeRules(cfg) {
		r.cfg.Access = cfg.Access
	}
	r.takeWorkloads(cfg)
	r.takeUpstreamPasswords(cfg)
	if broken == nil {
		r.log.Info("reloaded certificates, passwords, access rules, workloads and the log level")
	} else {
		r.log.Info("reloaded passwords, access rules, workloads and the log level")
	}
	if other := settings.Changed(r.cfg, *cfg); len(other) > 0 {
		r.log.Warn("other settings have changed; they take effect at the next start", zap.Strings("settings", other))
	}
}

// changes describes what a reload has changed.
func (r *reloader) changes(before *config.Config, rules *access.Rules, loaded *config.Config) string {
	var parts []string
	if before.Log.Level != r.cfg.Log.Level {
		parts = append(parts, "log.level: "+before.Log.Level+" → "+r.cfg.Log.Level)
	}
	if text := access.Changes(rules, r.gate.inline.Load()); text != "" {
		parts = append(parts, "access.rules: "+text)
	}
	if old, now := workloadsOf(before), workloadsOf(&r.cfg); !reflect.DeepEqual(old, now) {
		names := func(list []config.Workload) string {
			var names []string
			for _, w := range list {
				names = append(names, w.Name)
			}
			return "[" + strings.Join(names, ", ") + "]"
		}
		parts = append(parts, "auth.service.builtin.workloads: "+names(old)+" → "+names(now))
	}
	if !reflect.DeepEqual(*loaded, r.cfg) {
		parts = append(parts, "other settings, which take effect at the next start")
	}
	return strings.Join(parts, "; ")
}

// takeUpstreamPasswords notes the passwords of upstreams that come from files, which are read
// at each login.
func (r *reloader) takeUpstreamPasswords(cfg *config.Config) {
	take := func(now *settings.Secret, next settings.Secret) {
		if next.File() != "" && next.File() == now.File() {
			*now = next
		}
	}
	now, next := &r.cfg.Proxy, &cfg.Proxy
	take(&now.Password, next.Password)
	now.Upstreams = slices.Clone(now.Upstreams) // the configuration of the start does not change
	for i := range min(len(now.Upstreams), len(next.Upstreams)) {
		take(&now.Upstreams[i].Password, next.Upstreams[i].Password)
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
