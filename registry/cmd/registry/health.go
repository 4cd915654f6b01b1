package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/registry/internal/config"
	"slipway/shared/command"
)

// newHealthCommand returns the `registry health` command, for the health check of a container
// whose image has no other HTTP client.
func newHealthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the running registry on this machine whether it is healthy",
		Long: "Asks the registry that serves this configuration on this machine whether it is healthy. Without --config: " +
			"the one running as process 1 of a container, otherwise that of the default file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file := command.ConfigFile(cmd)
			if file == "" {
				file = configOf("/proc/1/cmdline")
			}
			cfg, _, err := config.Load(file, os.Environ())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
			defer cancel()
			err = askHealth(ctx, cfg)
			if errors.Is(err, errCertificate) {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "the registry runs; set http.debug.addr for a full check without a client certificate")
				return err
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "healthy")
			return err
		},
	}
}

// configOf returns the configuration file named in a registry's command line, or "" if
// it names none or belongs to another program.
func configOf(cmdline string) string {
	b, err := os.ReadFile(cmdline)
	if err != nil {
		return ""
	}
	words := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	ours := slices.IndexFunc(words, func(word string) bool { return word == "serve" || path.Base(word) == "registry" })
	if ours < 0 {
		return ""
	}
	for i := ours + 1; i < len(words); i++ {
		flag, value, whole := strings.Cut(words[i], "=")
		switch {
		case flag != "-c" && flag != "--config":
			if words[i-1] == "serve" && !strings.HasPrefix(words[i], "-") || i == ours+1 && isFile(words[i]) {
				return words[i]
			}
		case whole:
			return value
		case i+1 < len(words):
			return words[i+1]
		}
	}
	return ""
}

// errCertificate means that the registry requires a client certificate. The check has none, but
// the answer shows that the registry is running.
var errCertificate = errors.New("the registry requires a certificate")

// askHealth returns nil if the registry of this configuration reports that it is healthy.
func askHealth(ctx context.Context, cfg *config.Config) error {
	scheme, network, addr := healthAddress(cfg)
	secure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // this machine, and nothing secret is sent
	if t := cfg.HTTP.TLS; t != nil && len(t.LetsEncrypt.Hosts) > 0 {
		secure.ServerName = t.LetsEncrypt.Hosts[0]
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		},
		TLSClientConfig: secure,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost/debug/health", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "remote error" && cfg.HTTP.TLS != nil && len(cfg.HTTP.TLS.ClientCAs) > 0 {
		return errCertificate
	}
	if err != nil {
		return fmt.Errorf("no registry answers at %s: %w", addr, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK && cfg.HTTP.Debug.Addr == "" {
		return fmt.Errorf("not healthy (%s): the registry's log names the failed check", resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not healthy (%s): %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// healthAddress returns where the registry of this configuration reports its health on
// this machine: the debug address if there is one, since it requires no
// certificate.
func healthAddress(cfg *config.Config) (scheme, network, addr string) {
	if d := cfg.HTTP.Debug.Addr; d != "" {
		return "http", "tcp", local(d)
	}
	scheme = "http"
	if cfg.HTTP.TLS != nil {
		scheme = "https"
	}
	if cfg.HTTP.Net == "unix" {
		return scheme, "unix", cfg.HTTP.Addr
	}
	return scheme, "tcp", local(cfg.HTTP.Addr)
}

// local returns the address for a client on the same machine.
func local(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}
