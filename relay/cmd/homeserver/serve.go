package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slipway/relay/internal/synapse"
)

func newServeCommand() *cobra.Command {
	var o synapse.Options
	var users []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the homeserver until a signal; makes the named accounts first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, users)
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder of its database, keys and logs")
	cmd.Flags().IntVar(&o.Port, "port", 8008, "port on 127.0.0.1")
	cmd.Flags().StringArrayVar(&users, "user", nil, "account to make, as NAME=VARIABLE: the password is in that environment variable; \"+NAME\" is a server administrator")
	return cmd
}

func serve(ctx context.Context, o synapse.Options, users []string) error {
	server, err := synapse.Start(ctx, o)
	if err != nil {
		return err
	}
	defer server.Stop()
	for _, user := range users {
		name, variable, ok := strings.Cut(user, "=")
		password := os.Getenv(variable)
		if !ok || password == "" {
			return fmt.Errorf("--user %s: want NAME=VARIABLE with a password in that variable", user)
		}
		name, admin := strings.CutPrefix(name, "+")
		if err := server.CreateUser(ctx, name, password, admin); err != nil {
			return err
		}
	}
	fmt.Println("homeserver ready on", server.URL)
	select {
	case <-ctx.Done():
		return nil
	case <-server.Done():
		return errors.New("the homeserver ended by itself; its log is in " + o.Dir)
	}
}
