package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"slipway/registry/internal/app"
	"slipway/registry/internal/config"
	"slipway/shared/command"
	"slipway/shared/server"
)

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Serve the registry",
		Long: "Serves the registry with the configuration FILE, or that of --config, and the REGISTRY_ variables, which take precedence. SIGTERM or SIGINT stops it after the requests in progress. " +
			"SIGHUP reloads certificates, the password file, access rules, workloads, token keys and the log level.",
		Args: cobra.MaximumNArgs(1),
		RunE: serve,
	}
}

func serve(cmd *cobra.Command, args []string) error {
	hangups, stopSignals := server.Hangups()
	defer stopSignals()
	file, err := command.ConfigArgument(cmd, args)
	if err != nil {
		return err
	}
	cfg, report, err := config.Load(file, os.Environ())
	if err != nil {
		return err
	}
	a, err := app.New(cmd.Context(), cfg, app.Options{
		Build: built(), Warnings: report.Warnings, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
		Load: func() (*config.Config, error) {
			cfg, _, err := config.Load(file, os.Environ())
			return cfg, err
		},
	})
	if err != nil {
		return err
	}
	stop := server.OnHangup(cmd.Context(), hangups, func(context.Context) { a.Reload() })
	err = a.Run(cmd.Context())
	stop()
	return errors.Join(err, a.Close())
}
