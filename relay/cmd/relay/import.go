package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/client"
	"slipway/relay/internal/store"
	"slipway/shared/command"
)

// newImportCommand makes `relay import`, which takes over from other servers.
func newImportCommand() *cobra.Command {
	return command.Group("import", "Import users and applications from another server", "", newImportPushBitsCommand())
}

func newImportPushBitsCommand() *cobra.Command {
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "pushbits DATABASE",
		Short: "Import users, applications and tokens from PushBits' SQLite file",
		Long: "Reads PushBits' database without changing it and creates its users and applications here: tokens and passwords stay valid, messages go to the same rooms. " +
			"The import is one transaction; what already exists is skipped. The relay must not run meanwhile. " +
			"The bot must be in the rooms: set matrix.username to the account that PushBits used, and run `relay doctor` afterwards.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			old, err := store.ReadPushBits(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			imported, err := importPushBits(cmd, old, !dry)
			if err != nil {
				return err
			}
			return command.Report(cmd, asJSON, imported, func(out io.Writer) error { return printImported(out, imported, dry) })
		},
	}
	addConfigFlag(cmd)
	command.DryRunFlag(cmd, &dry)
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func importPushBits(cmd *cobra.Command, old *store.PushBits, commit bool) (imported []account.Imported, err error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	p, err := assemble(cmd.Context(), cfg, zap.NewNop(), nil, client.LocalURL(cfg))
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("a relay uses the database %s: stop it, import, and start it again", cfg.Database.Where())
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	admin, err := p.service.Authenticate(cmd.Context(), cfg.Admin.Name, cfg.Admin.Password.Reveal(), "import")
	if err != nil {
		return nil, err
	}
	return p.service.Import(context.WithoutCancel(cmd.Context()), admin, old, commit)
}

func printImported(out io.Writer, imported []account.Imported, dry bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	taken := 0
	for _, t := range imported {
		mark := "skipped"
		if t.Taken {
			mark = "imported"
			taken++
		}
		fmt.Fprintf(w, "%s\t%s\t%q\t%s\n", mark, t.Noun, t.Name, t.Note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	done := "imported"
	if dry {
		done = "would be imported; nothing was changed"
	}
	_, err := fmt.Fprintf(out, "%d of %d %s\n", taken, len(imported), done)
	return err
}
