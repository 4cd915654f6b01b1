package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/api"
	"slipway/relay/internal/config"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/doctor"
	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/protocol/webhook"
	"slipway/relay/internal/request"
	"slipway/relay/internal/service"
	"slipway/relay/internal/store"
	"slipway/relay/internal/web"
	"slipway/shared/health"
	"slipway/shared/logging"
	"slipway/shared/oidclogin"
	"slipway/shared/servicemetrics"
)

// parts are the relay's components, assembled but not running.
type parts struct {
	store   *store.Store
	bot     *matrix.Client
	service *service.Service
	api     *api.API
	checks  *health.Monitor
	metrics http.Handler
	// register adds metrics to those that metrics shows.
	register prometheus.Registerer
	// hookSecret is hook.registry.secret.
	hookSecret atomic.Pointer[string]
}

// assemble creates all components. stopped is the address of the relay that this process stands in for, "" if this process
// is the relay.
func assemble(ctx context.Context, cfg *config.Config, log *zap.Logger, access *logging.AccessLog, stopped string) (*parts, error) {
	registry := prometheus.NewRegistry()
	if !cfg.Database.Postgres() {
		registry.MustRegister(servicemetrics.Volume("relay_database", filepath.Dir(cfg.Database.Connection)))
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.Database.Where(), err)
	}
	restrictSecrets(cfg, log)
	var delivers func() bool
	if db.Shared() {
		delivers = db.Held
	}
	pickleKey, err := pickleKey(cfg)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	bot, err := matrix.New(matrix.Options{
		PickleKey: pickleKey, RecoveryKey: cfg.Matrix.RecoveryKey.Reveal(), EncryptNewRooms: cfg.Matrix.EncryptNew,
		Homeserver: cfg.Matrix.Homeserver, Username: cfg.Matrix.Username, Password: cfg.Matrix.Password.Reveal(),
		AccessToken: cfg.Matrix.AccessToken.Reveal(), InviteServers: cfg.Matrix.Invites.Servers, Timeout: cfg.Matrix.Timeout, Store: db, Log: log, Delivers: delivers,
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	service, err := service.New(ctx, serviceOptions(cfg, db, bot, pickleKey, log, registry))
	if err != nil {
		bot.Close()
		return nil, fmt.Errorf("database %s: %w", cfg.Database.Where(), err)
	}
	checks := health.Start(log, health.Check{Name: api.DatabaseCheck, Immediate: true, Func: service.CheckDatabase})
	p := &parts{store: db, bot: bot, service: service, checks: checks, metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), register: registry}
	p.hookSecret.Store(new(cfg.Hook.Registry.Secret.Reveal()))
	if p.api, err = newAPI(ctx, cfg, p, log, access, registry, stopped); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// openDatabase opens the configured database. Several relays may share a PostgreSQL database.
func openDatabase(ctx context.Context, cfg *config.Config) (*store.Store, error) {
	if !cfg.Database.Postgres() {
		return store.Open(ctx, cfg.Database.Connection)
	}
	return store.OpenPostgres(ctx, store.Postgres{DSN: cfg.Database.DSN(), Password: cfg.Database.Password.Reveal(), Shared: true, Name: relayName(cfg)})
}

// relayName returns this relay's name among relays that share a database: host or container, and port.
func relayName(cfg *config.Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "relay"
	}
	if _, port, err := net.SplitHostPort(cfg.HTTP.ListenAddress); err == nil {
		host += ":" + port
	}
	return host
}

func serviceOptions(cfg *config.Config, db *store.Store, bot *matrix.Client, secretKey []byte, log *zap.Logger, registry *prometheus.Registry) service.Options {
	return service.Options{
		Store: db, Events: bot.Events(), Bot: bot, Log: log, Metrics: service.NewMetrics(registry), Limits: limitsOf(cfg),
		Accounts: account.Options{
			Admin: adminOf(cfg), MaxApplications: cfg.Limits.Applications, CheckToken: cfg.Security.CheckToken, SecretKey: secretKey,
		},
		Delivery: delivery.Options{
			Sender: bot, Encrypt: bot, Rooms: bot,
			Format:   format.Options{ColoredTitle: cfg.Formatting.ColoredTitle, PriorityWords: cfg.Formatting.PriorityWords, MediaServer: cfg.Matrix.ServerName()},
			Parallel: cfg.Delivery.Parallel, MaxAge: cfg.Delivery.MaxAge, SearchFirst: cfg.Delivery.SearchFirst,
		},
		Retention: cfg.History.Retention, MaxUpload: bot.MaxUpload,
	}
}

func limitsOf(cfg *config.Config) service.Limits {
	l := &cfg.Limits
	return service.Limits{
		MaxMessage: int(l.Message), MaxTitle: int(l.Title),
		RatePerMinute: l.RatePerMinute, Burst: l.Burst, MaxWaiting: l.Waiting, MaxAttachments: int64(l.Attachments),
	}
}

func adminOf(cfg *config.Config) account.Admin {
	return account.Admin{Name: cfg.Admin.Name, Password: cfg.Admin.Password.Reveal(), MatrixID: cfg.Admin.MatrixID}
}

// signIn returns nil without an identity provider. It doesn't reach the provider, which may be down.
func signIn(o *config.OIDC) *web.SignIn {
	if o == nil {
		return nil
	}
	return &web.SignIn{
		Name: o.Name, Issuer: o.Issuer, ServerName: o.ServerName, Create: o.Create,
		Provider: oidclogin.New(oidclogin.Options{
			Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), Scopes: o.Scopes, NameClaim: o.NameClaim, Cookie: "relay_login",
			ValidName: func(name string) bool { _, ok := account.MatrixIDOf(name, o.ServerName); return ok },
		}),
	}
}

func newAPI(ctx context.Context, cfg *config.Config, p *parts, log *zap.Logger, access *logging.AccessLog, registry *prometheus.Registry, stopped string) (*api.API, error) {
	proxies, err := config.Networks(cfg.HTTP.TrustedProxies)
	if err != nil {
		return nil, err
	}
	target := doctor.Target{Service: p.service, Probe: p.bot.Probe, Identity: p.bot.UserID, Encryption: p.bot.Encryption, NewRooms: p.bot.NewRooms, Stopped: stopped}
	pages, err := web.New(web.Options{
		SignIn: signIn(cfg.Auth.OIDC), Service: p.service, Doctor: target, Log: log, Version: built().Version, Homeserver: cfg.Matrix.Homeserver,
		PublicURL: cfg.HTTP.PublicURL, AdminName: cfg.Admin.Name, TrustedProxies: proxies, Retention: cfg.History.Retention, Mail: web.Mail{ListenAddress: cfg.SMTP.ListenAddress, Domain: cfg.SMTP.Domain},
	})
	if err != nil {
		return nil, err
	}
	origins, err := request.NewOrigins(cfg.HTTP.PublicURL)
	if err != nil {
		return nil, err
	}
	v := built()
	o := api.Options{
		Service: p.service, Log: log, Access: access, Metrics: api.NewMetrics(registry), Version: api.Version{Version: v.Version, Commit: v.Commit, Date: v.Date},
		Doctor: target, RecoveryKey: p.bot.RecoveryKey, Pages: pages, Health: p.checks, Stopping: ctx.Done(),
		MaxBody: int64(cfg.Limits.Body), MaxWait: cfg.Limits.Wait, TrustedProxies: proxies, Origins: origins, PublicURL: cfg.HTTP.PublicURL,
		Inbound: []protocol.Protocol{
			protocol.Native(),
			webhook.PushBits(),
			protocol.Heartbeat(),
			webhook.Registry(func() string { return *p.hookSecret.Load() }),
			protocol.Slack(),
			protocol.Mattermost(),
			protocol.Discord(),
			protocol.Teams(),
			protocol.Pushover(),
			webhook.Alertmanager(),
			webhook.Grafana(),
			webhook.GitHub(),
			webhook.GitLab(),
			webhook.Gitea(),
			webhook.Generic(),
			webhook.Hookshot(),
			webhook.Apprise(),
			webhook.UptimeKuma(),
			webhook.Healthchecks(),
			webhook.Servarr(),
			protocol.Ntfy(), // last, because its paths have no prefix
		},
	}
	if cfg.Metrics.Enabled && cfg.Metrics.ListenAddress == "" {
		o.Prometheus = p.metrics
	}
	return api.New(o), nil
}

// close releases what assemble created. Nothing may use it any more.
func (p *parts) close() error {
	p.checks.Close()
	defer p.bot.Close()
	return p.service.Close()
}
