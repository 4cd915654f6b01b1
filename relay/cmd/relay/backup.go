package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slipway/relay/internal/store"
)

// newBackupCommand makes `relay backup`.
func newBackupCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Write a consistent copy of the SQLite database, while the relay runs",
		Long: "Writes a consistent copy of the SQLite database to FILE, which must not exist, or to standard output (-), while the relay runs. " +
			"The copy contains the bot's session: protect it like a password. The pickle key is a file of its own: store it apart. " +
			"For PostgreSQL use pg_dump.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, _, err := loadNamed(file, nil)
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
	addConfigFlag(cmd, &file)
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
