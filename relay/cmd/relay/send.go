package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// maxStdin bounds a message read from stdin.
const maxStdin = 1 << 20

// newSendCommand makes `relay send`, a sender like any other.
func newSendCommand() *cobra.Command {
	var url, token, title string
	var priority int
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "send [MESSAGE]",
		Short: "Send a message; without one it is read from stdin",
		Long:  "Sends a message to a relay as an application does. The address and the token can be given by $RELAY_URL and $RELAY_TOKEN.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if token = cmp.Or(token, os.Getenv("RELAY_TOKEN")); token == "" {
				return errors.New("a token is needed: --token or RELAY_TOKEN")
			}
			text, err := textOf(cmd, args)
			if err != nil {
				return err
			}
			in := map[string]any{"token": token, "message": text, "title": title}
			if cmd.Flags().Changed("priority") {
				in["priority"] = priority
			}
			r := &remote{base: strings.TrimRight(cmp.Or(url, os.Getenv("RELAY_URL"), "http://127.0.0.1:8080"), "/"), client: &http.Client{Timeout: wait + time.Minute}}
			return r.send(cmd, in, wait)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "address of the relay (default $RELAY_URL, or http://127.0.0.1:8080)")
	cmd.Flags().StringVar(&token, "token", "", "the application's token (default $RELAY_TOKEN, which does not show in the list of processes)")
	cmd.Flags().StringVarP(&title, "title", "t", "", "title")
	cmd.Flags().IntVarP(&priority, "priority", "p", 0, "priority, -2 to 2 (default: the application's)")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the delivery; a message not delivered by then is a failure")
	return cmd
}

func textOf(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxStdin+1))
	if err == nil && len(text) > maxStdin {
		err = errors.New("the message is too long")
	}
	return string(text), err
}

func (r *remote) send(cmd *cobra.Command, in map[string]any, wait time.Duration) error {
	var out struct {
		ID        int64  `json:"id"`
		Status    string `json:"status"`
		EventID   string `json:"event_id"`
		LastError string `json:"last_error"`
	}
	path := "/message"
	if wait > 0 {
		path += "?wait=" + wait.String()
	}
	if _, err := r.do(cmd.Context(), http.MethodPost, path, in, &out); err != nil {
		return err
	}
	if wait > 0 && out.Status != "sent" {
		return fmt.Errorf("message %d is accepted but %s: %s", out.ID, out.Status, cmp.Or(out.LastError, "not delivered yet"))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(fmt.Sprintf("message %d %s %s", out.ID, out.Status, out.EventID)))
	return err
}
