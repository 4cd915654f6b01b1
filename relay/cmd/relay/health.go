package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"slipway/relay/internal/client"
	"slipway/shared/command"
)

// newHealthCommand makes `relay health`, for the health check of a container
// that has no other client inside.
func newHealthCommand() *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running relay whether it accepts messages",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := &client.Client{HTTP: &http.Client{}}
			if t.url != "" {
				var err error
				if r.Base, err = client.BaseURL(t.url); err != nil {
					return err
				}
			} else {
				cfg, err := loadConfig(cmd)
				if err != nil {
					return err
				}
				r.Base = client.LocalURL(cfg)
				if r.HTTP.Transport, err = client.LocalTransport(cfg); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
			defer cancel()
			var answer struct {
				Health   string `json:"health"`
				Database string `json:"database"`
				Matrix   string `json:"matrix"`
				Waiting  int64  `json:"waiting"`
				Oldest   int64  `json:"oldest_seconds"`
				Reason   string `json:"reason,omitempty"`
			}
			_, err := r.Do(ctx, http.MethodGet, "/health", nil, &answer)
			if answer.Health == "" {
				return err
			}
			if asJSON {
				return errors.Join(command.WriteJSON(cmd.OutOrStdout(), answer), err)
			}
			state := fmt.Sprintf("%s (database %s, matrix %s)", answer.Health, answer.Database, answer.Matrix)
			if err != nil {
				return errors.New(state)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), state)
			return err
		},
	}
	t.addFlags(cmd)
	command.JSONFlag(cmd, &asJSON)
	return cmd
}
