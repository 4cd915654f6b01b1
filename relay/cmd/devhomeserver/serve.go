//go:build goolm

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"slipway/relay/internal/servertest"
)

func newServeCommand() *cobra.Command {
	var o servertest.SynapseOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the homeserver until a signal",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "`DIRECTORY` for its database, keys and logs, and for registration.secret, which \"relay setup --registration-secret-file\" reads to make accounts")
	cmd.Flags().IntVar(&o.Port, "port", 8008, "port on 127.0.0.1")
	return cmd
}

func serve(ctx context.Context, o servertest.SynapseOptions) error {
	server, err := servertest.StartSynapse(ctx, o)
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Println("homeserver ready on", server.URL)
	select {
	case <-ctx.Done():
		return nil
	case <-server.Done():
		return errors.New("the homeserver ended by itself; its log is in " + o.Dir)
	}
}
