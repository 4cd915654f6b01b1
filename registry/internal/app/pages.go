package app

import (
	"context"

	"slipway/registry/internal/api"
	"slipway/registry/internal/api/metrics"
	"slipway/registry/internal/identity/session"
	"slipway/registry/internal/maintenance"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/web"
	"slipway/shared/signin"
)

// openPages adds the pages for people, unless they are off.
func (a *App) openPages(handler *api.API, secret []byte, requests *metrics.Requests) error {
	if !a.Config.HTTP.UI.Enabled {
		return nil
	}
	o := web.Options{
		Registry: a.Rules, Auth: a.gate.authorizer, API: handler, Index: a.index, Robots: a.gate.robots, Users: a.gate.accounts(), Health: a.checks, Events: a.events, Audit: a.audit, Board: &a.board, Sessions: session.Fixed(secret), Log: a.Log, Version: a.Build.Version,
		KeepDeleted: a.Config.Storage.Delete.Keep, DeleteEnabled: a.Config.Storage.Delete.Enabled, ReadOnly: a.Config.Storage.Maintenance.ReadOnly.Enabled,
		RetentionDryRun: a.Config.Storage.Maintenance.Retention.DryRun, Refused: requests.Refused,
	}
	if a.gate.ring != nil {
		o.Sessions = session.New(a.Store, a.gate.ring)
	}
	if rules := maintenance.RetentionRules(a.Config.Storage.Maintenance.Retention.Rules); len(rules) > 0 {
		plan := retention.Options{Store: a.Store, Registry: a.Rules, Rules: rules, Pulls: a.Pulls}
		o.Plan = func(ctx context.Context) (*retention.Plan, error) { return retention.Make(ctx, plan) }
	}
	if a.metrics != nil {
		o.Metrics = a.metrics
	}
	if a.Config.Audit != nil {
		o.AuditFile = a.Config.Audit.File
	}
	if a.Cache != nil {
		o.Caches = a.Cache.Caches
	}
	if auth := a.Config.Auth; auth != nil && auth.OIDC != nil {
		c := auth.OIDC
		o.ProviderName = c.Name
		o.Provider = signin.New(signin.Options{
			Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret.Reveal(), Scopes: c.Scopes, NameClaim: c.NameClaim, ValidName: web.UsableName, GroupsClaim: c.GroupsClaim,
			Cookie: "registry_login",
		})
	}
	pages, err := web.New(o)
	if err != nil {
		return err
	}
	a.onClose(pages.Close)
	handler.ServePages(pages)
	return nil
}
