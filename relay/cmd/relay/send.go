package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/relay/internal/client"
	"slipway/shared/command"
)

// maxStdin bounds a message read from stdin.
const maxStdin = 1 << 20

// newSendCommand makes `relay send`, a sender like any other.
func newSendCommand() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send [MESSAGE]",
		Short: "Send a message, or what stdin holds",
		Long: "Sends a message to a relay as an application does. $RELAY_URL and $RELAY_TOKEN give the address and the token. " +
			"While the relay can't be reached, such as during a restart, it retries; the idempotency key prevents duplicates. " +
			"The exit code is 3 if the relay refuses the message, and 4 if it is stored but not delivered within --wait.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.Flags().StringVar(&o.url, "url", "", "address of the relay (default $RELAY_URL, or http://127.0.0.1:8080)")
	cmd.Flags().StringVar(&o.token, "token", "", "the application's token (default $RELAY_TOKEN, which process lists don't show)")
	cmd.Flags().StringVarP(&o.title, "title", "t", "", "title")
	cmd.Flags().StringVarP(&o.priority, "priority", "p", "", "min, low, normal, high, max, or -2 to 2 (default: the application's)")
	cmd.Flags().StringVar(&o.key, "idempotency-key", "", "the same key with the same message is one message, for 7 days (default: a new one)")
	command.DurationFlag(cmd.Flags(), &o.retry, "retry", 30*time.Second, "how long to try again while the relay cannot be reached or is busy; 0 for one attempt")
	command.DurationFlag(cmd.Flags(), &o.wait, "wait", 0, "how long to wait for the delivery; a message not delivered by then is exit code 4")
	command.JSONFlag(cmd, &o.json)
	return cmd
}

// sendOptions are the flags of `relay send`.
type sendOptions struct {
	url, token, title, key string
	priority               string
	wait, retry            time.Duration
	json                   bool
}

func (o *sendOptions) run(cmd *cobra.Command, args []string) error {
	if o.token = cmp.Or(o.token, os.Getenv("RELAY_TOKEN")); o.token == "" {
		return command.Usage(errors.New("a token is required: give --token or $RELAY_TOKEN"))
	}
	base, err := client.BaseURL(cmp.Or(o.url, os.Getenv("RELAY_URL"), "http://127.0.0.1:8080"))
	if err != nil {
		return err
	}
	text, err := textOf(cmd, args)
	if err != nil {
		return err
	}
	if strings.TrimSpace(text) == "" {
		return command.Usage(errors.New("nothing to send: give a MESSAGE, or text on stdin"))
	}
	in := map[string]any{"token": o.token, "message": text, "title": o.title}
	if f := cmd.Flag("priority"); f.Changed {
		in["priority"] = valueOf(f)
	}
	r := &remote{Client: client.Client{Base: base, Key: cmp.Or(o.key, rand.Text()), HTTP: &http.Client{Timeout: o.wait + time.Minute}}}
	return r.send(cmd, in, o)
}

func textOf(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxStdin+1))
	if err == nil && len(text) > maxStdin {
		err = errors.New("the message is too long: at most 1 MiB (1048576 bytes)")
	}
	return string(text), err
}

// sent is the relay's answer to a message.
type sent struct {
	ID        int64  `json:"id"`
	Status    string `json:"status"`
	EventID   string `json:"event_id"`
	LastError string `json:"last_error,omitempty"`
}

func (r *remote) send(cmd *cobra.Command, in map[string]any, o *sendOptions) error {
	path := "/message"
	if o.wait > 0 {
		path += "?wait=" + o.wait.String()
	}
	out, err := r.insist(cmd, path, in, o.retry)
	if err != nil {
		return err
	}
	late := o.wait > 0 && out.Status != "sent"
	if o.json || !late {
		err = command.Report(cmd, o.json, out, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("message %d %s %s", out.ID, out.Status, out.EventID)))
			return err
		})
	}
	if err == nil && late {
		err = command.Undelivered(fmt.Errorf("message %d is stored but %s: %s", out.ID, out.Status, cmp.Or(out.LastError, "not delivered yet")))
	}
	return err
}

// insist posts a message and retries for up to during while the relay is unreachable or busy.
func (r *remote) insist(cmd *cobra.Command, path string, in map[string]any, during time.Duration) (out sent, err error) {
	end := time.Now().Add(during)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		status, err := r.Do(cmd.Context(), http.MethodPost, path, in, &out)
		again := status == 0 || status == http.StatusTooManyRequests || status >= http.StatusBadGateway
		if err == nil || !again || time.Now().Add(wait).After(end) {
			return out, err
		}
		if wait == firstRetry {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v; trying again for %v\n", err, during)
		}
		select {
		case <-time.After(wait):
		case <-cmd.Context().Done():
			return out, err
		}
	}
}

const firstRetry, lastRetry = 250 * time.Millisecond, 4 * time.Second
