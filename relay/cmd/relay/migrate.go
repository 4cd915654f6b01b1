package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slipway/relay/internal/store"
	"slipway/shared/plural"
)

// newMigrateCommand makes `relay migrate`, which takes everything to another kind of database.
func newMigrateCommand() *cobra.Command {
	var from, to, passwordFile string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Copy everything into another database",
		Long: "Copies everything from one database to another, which must be empty: SQLite to PostgreSQL, or back. No relay may use either of them meanwhile. " +
			"The source is not changed. An interrupted run leaves the new database empty; run it again. Then configure the relay for the new database (database.dialect and database.connection). " +
			"The bot's session is copied too, so nothing is sent twice.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			password, err := readPassword(passwordFile)
			if err != nil {
				return err
			}
			source, err := openNamed(cmd.Context(), from, password, true)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			defer func() { err = errors.Join(err, source.Close()) }()
			target, err := openNamed(cmd.Context(), to, password, false)
			if err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			defer func() { err = errors.Join(err, target.Close()) }()
			if err := store.Copy(cmd.Context(), source, target, tellCopied(cmd)); err != nil {
				return fmt.Errorf("%w; the new database is still empty", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "done: give the new database to the relay and start it")
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "database to copy: sqlite:FILE, postgres:KEYWORDS or postgres://…")
	cmd.Flags().StringVar(&to, "to", "", "database to copy into, which must be empty")
	cmd.Flags().StringVar(&passwordFile, "password-file", "", "file with the password of PostgreSQL's user")
	_ = cmd.MarkFlagRequired("from") // fails only for a flag that is not there
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimRight(string(text), "\r\n"), err
}

// openNamed opens the database that name gives, such as sqlite:FILE. With there, a missing SQLite file is an error.
func openNamed(ctx context.Context, name, password string, there bool) (*store.Store, error) {
	kind, where, _ := strings.Cut(name, ":")
	switch kind {
	case "sqlite", "sqlite3":
		if _, err := os.Stat(where); there && err != nil {
			return nil, err
		}
		return store.Open(ctx, where)
	case "postgres", "postgresql":
		if strings.HasPrefix(where, "//") {
			where = name
		}
		return store.OpenPostgres(ctx, store.Postgres{DSN: where, Password: password, Shared: true, Name: "relay migrate", Application: "slipway-migrate"})
	}
	return nil, fmt.Errorf("%q names no database: write sqlite:FILE, postgres:KEYWORDS or postgres://…", kind)
}

// tellCopied prints a line a table.
func tellCopied(cmd *cobra.Command) func(string, int64) {
	last, n := "", int64(0)
	line := func() {
		if last != "" && n > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", last, plural.Of(n, "row"))
		}
	}
	return func(table string, rows int64) {
		if table != last {
			line()
		}
		last, n = table, rows
		if table == "settings" { // the last one
			line()
		}
	}
}
