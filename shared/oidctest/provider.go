// Package oidctest has OpenID Connect providers for tests: a real one, and one that errs on demand.
package oidctest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/browsertest"
	"slipway/shared/programtest"
)

// Secret is the client's secret at the provider.
const Secret = "secret of the service"

// Start starts a provider with one client and returns its URL. It ends with the test. Any name and
// password log in; the user NAME@GROUP is a member of GROUP.
func Start(t *testing.T, client, callback string) (issuer string) {
	t.Helper()
	root := programtest.Root(t)
	modules := filepath.Join(root, ".tools", "oidc-provider", "node_modules")
	if _, err := os.Stat(modules); err != nil {
		t.Fatal("oidc-provider is missing; `make tools` installs it")
	}
	addr := programtest.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", filepath.Join(root, "shared/oidctest/provider.cjs"), modules, port, client, Secret, callback)
	programtest.Start(t, cmd, "http://"+addr+"/.well-known/openid-configuration")
	return "http://" + addr
}

// LogIn fills in the provider's pages, on which the browser is.
func LogIn(b *browsertest.Browser, who string) {
	b.Helper()
	b.Sees("Sign-in")
	b.Fill("input[name=login]", who)
	b.Fill("input[name=password]", "anything")
	b.Click("button[type=submit]")
	b.Sees("Continue")
	b.Click("button[type=submit]")
}
