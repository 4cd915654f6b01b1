package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slipway/relay/internal/client"
	"slipway/relay/internal/config"
	"slipway/shared/command"
)

// setupOptions are the flags of `relay setup`.
type setupOptions struct {
	secrets, registrySecrets, registration, url, app string

	wait    time.Duration
	reset   bool
	newRoom bool
}

// newSetupCommand makes `relay setup`, which runs once before everything else and
// may run again at any time.
func newSetupCommand() *cobra.Command {
	var o setupOptions
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create missing secrets, accounts, room and application",
		Long: "Prepares a relay with a Synapse homeserver and a registry: creates missing secrets as files of mode 0600, " +
			"waits for the homeserver, creates the bot without a rate limit, the administrator's Matrix account, and an application with its room, " +
			"and writes the application's token, and the header and secret for the registry's notifications. " +
			"It prints a line for each step. Run it again after an interruption: existing parts are kept.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSetup(cmd, o) },
	}
	cmd.AddCommand(newSetupShowCommand())
	addConfigFlag(cmd)
	addSecretsFlag(cmd, &o.secrets)
	flags := cmd.Flags()
	flags.StringVar(&o.registrySecrets, "registry-secrets", "", "folder of what the registry reads, registry_http_secret, registry_headers and a copy of hook_secret (default: that of the secrets)")
	flags.StringVar(&o.registration, "registration-secret-file", "", "the homeserver's registration secret, the file of its registration_shared_secret_path; without it no accounts are created")
	flags.StringVar(&o.url, "url", "", "address of a running relay (default: from the configuration)")
	flags.StringVar(&o.app, "app", "registry", "name of the application")
	command.DurationFlag(flags, &o.wait, "wait", 2*time.Minute, "how long to wait for the homeserver")
	flags.BoolVar(&o.reset, "reset-passwords", false, "set the passwords of existing accounts to those of the files")
	flags.BoolVar(&o.newRoom, "new-room", false, "if the homeserver has lost the application's room, create another application of that name; the old one is renamed and keeps its messages")
	return cmd
}

func runSetup(cmd *cobra.Command, o setupOptions) (err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), o.wait)
	defer cancel()
	say := func(format string, args ...any) { fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...) }
	secrets, registry, done, err := openSecrets(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := client.MakeSecrets(secrets, registry, say); err != nil {
		return err
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	accounts, err := setupAccounts(ctx, cfg, o, secrets, say)
	if err != nil {
		return err
	}
	a := &client.ApplicationSetup{
		Name: o.app, Admin: cfg.Admin.Name, Person: cfg.Admin.MatrixID, NewRoom: o.newRoom,
		Secrets: secrets, Registry: registry, Accounts: accounts, Say: say,
	}
	closeRelay, err := openRelay(ctx, cfg, a, o.url, secrets.Path(client.BotPassword))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeRelay()) }()
	if err := a.Make(ctx); err != nil {
		return err
	}
	show := "relay setup show --secrets " + o.secrets
	if file := command.ConfigFile(cmd); file != "" {
		show += " --config " + file
	}
	say("names and passwords: %s", show)
	return nil
}

// openSecrets opens the relay's and the registry's secret folders, which may be the same. done closes them.
func openSecrets(o setupOptions) (secrets, registry *client.Secrets, done func() error, err error) {
	if secrets, err = client.OpenSecrets(o.secrets); err != nil {
		return nil, nil, nil, err
	}
	if o.registrySecrets == "" || o.registrySecrets == o.secrets {
		return secrets, secrets, secrets.Close, nil
	}
	if registry, err = client.OpenSecrets(o.registrySecrets); err != nil {
		return nil, nil, nil, errors.Join(err, secrets.Close())
	}
	return secrets, registry, func() error { return errors.Join(registry.Close(), secrets.Close()) }, nil
}

// setupAccounts waits for the homeserver and makes the accounts; nil without a
// registration secret.
func setupAccounts(ctx context.Context, cfg *config.Config, o setupOptions, secrets *client.Secrets, say func(string, ...any)) (*client.Accounts, error) {
	homeserver, err := client.NewHomeserver(cfg.Matrix.Homeserver)
	if err != nil {
		return nil, err
	}
	if err := client.WaitFor(ctx, homeserver); err != nil {
		return nil, err
	}
	say("homeserver %s: answers", cfg.Matrix.Homeserver)
	if o.registration == "" {
		say("accounts: none made without --registration-secret-file")
		return nil, nil
	}
	secret, err := client.WaitForSecret(ctx, o.registration)
	if err != nil {
		return nil, err
	}
	a := &client.Accounts{
		Homeserver: homeserver, Secrets: secrets, Registration: secret, Bot: cfg.Matrix.Username, BotPassword: cfg.Matrix.Password.Reveal(),
		Person: cfg.Admin.MatrixID, Reset: o.reset, Say: say,
	}
	return a, a.Make(ctx)
}
