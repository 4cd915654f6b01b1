package app

import (
	"slipway/registry/internal/api"
	"slipway/registry/internal/identity/session"
	"slipway/registry/internal/web"
	"slipway/shared/oidclogin"
)

// openPages adds the pages for people, unless they are off.
func (a *App) openPages(handler *api.API, served api.Options) error {
	if !a.Config.HTTP.UI.Enabled {
		return nil
	}
	o := web.Options{
		Registry: a.Registry, Auth: a.gate.authorizer, API: handler, Index: a.index, Robots: a.gate.robots, Users: served.Users, Health: a.checks, Events: a.events, Audit: a.audit, Board: served.Board, Plan: served.Plan, Sessions: session.Fixed(served.Secret), Log: a.Log, Version: a.Build.Version,
		KeepDeleted: a.Config.Storage.Delete.Keep, DeleteEnabled: a.Config.Storage.Delete.Enabled, ReadOnly: a.Config.Storage.Maintenance.ReadOnly.Enabled,
		Signatures: served.Signatures, RetentionDryRun: a.Config.Storage.Maintenance.Retention.DryRun, Refused: served.Metrics.Refused,
	}
	if a.gate.ring != nil {
		o.Sessions = session.New(a.Store, a.gate.ring)
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
		o.Provider = oidclogin.New(oidclogin.Options{
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
