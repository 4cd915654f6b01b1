package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slipway/relay/internal/config"
	"slipway/relay/internal/store"
	"slipway/shared/command"
)

// newBackupCommand makes `relay backup`.
func newBackupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Copy the SQLite database, while the relay runs",
		Long: "Writes a consistent copy of the SQLite database to FILE, which must not exist, or to standard output (-), while the relay runs. " +
			"The copy contains the bot's session: protect it like a password. The pickle key is a file of its own: store it apart. " +
			"For PostgreSQL use pg_dump.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, _, err := config.Load(command.ConfigFile(cmd), os.Environ())
			if err != nil {
				return err
			}
			if cfg.Database.Postgres() {
				return errors.New("the database is PostgreSQL: back it up with pg_dump")
			}
			if args[0] == "-" {
				return backupTo(cmd.Context(), cfg.Database.Connection, cmd.OutOrStdout())
			}
			if err := store.Backup(cmd.Context(), cfg.Database.Connection, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "wrote", args[0])
			return err
		},
	}
	addConfigFlag(cmd)
	return cmd
}

// backupTo makes the copy beside the database, where there is room for another one, and writes it to w.
func backupTo(ctx context.Context, database string, w io.Writer) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(database), ".relay-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "relay.db")
	if err := store.Backup(ctx, database, path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
