package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/shared/command"
	"slipway/shared/web"
)

// newMessagesCommand returns `relay messages`, which lists, shows, withdraws and redelivers messages as the configured
// administrator.
func newMessagesCommand() *cobra.Command {
	return command.Group(
		"messages", "List and show messages, withdraw them or deliver them again",
		"Shows and changes messages as the configured administrator, through the running relay or, if none runs, in its database.",
		newMessagesListCommand(), newMessagesShowCommand(),
		newMessagesChangeCommand("cancel", "Withdraw messages: those waiting are not sent, those sent are removed from their rooms", post.CancellableStates, http.MethodDelete, "", "withdrawn"),
		newMessagesChangeCommand("retry", "Deliver messages again; those waiting are tried at once", post.RedeliverableStates, http.MethodPost, "/redeliver", "queued again"),
	)
}

// messagesFilter are the flags that select messages.
type messagesFilter struct{ app, state, search, since, until string }

func (f *messagesFilter) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.app, "app", "", "of this application, by name or id")
	cmd.Flags().StringVar(&f.state, "state", "", "in these states, separated by commas: "+post.AllOf(post.States))
	cmd.Flags().StringVar(&f.search, "search", "", "with this text in title or message")
	cmd.Flags().StringVar(&f.since, "since", "", "accepted since: 2006-01-02, 2006-01-02T15:04:05Z, or a time back from now such as 24h")
	cmd.Flags().StringVar(&f.until, "until", "", "accepted until: 2006-01-02, 2006-01-02T15:04:05Z, or a time back from now such as 24h")
}

// query returns the filter as query parameters of the API.
func (f *messagesFilter) query(ctx context.Context, r *remote) (url.Values, error) {
	q := url.Values{}
	if f.app != "" {
		path, err := r.find(ctx, "application", f.app)
		if err != nil {
			return nil, err
		}
		q.Set("appid", path[strings.LastIndexByte(path, '/')+1:])
	}
	for name, text := range map[string]string{"state": f.state, "q": f.search} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for name, text := range map[string]string{"since": f.since, "until": f.until} {
		if text == "" {
			continue
		}
		t, err := timeOf(text, time.Now())
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		q.Set(name, t.Format(time.RFC3339))
	}
	return q, nil
}

// timeOf parses an RFC 3339 time, a UTC date, or a duration before now.
func timeOf(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return now, fmt.Errorf("%q is not a time such as 2006-01-02, 2006-01-02T15:04:05Z or 24h", text)
}

// delivery is the part of the API's message object that the commands use.
type delivery struct {
	ID          int64      `json:"id"`
	Application string     `json:"application"`
	Title       string     `json:"title"`
	Message     string     `json:"message"`
	ContentType string     `json:"content_type"`
	Priority    int        `json:"priority"`
	Date        time.Time  `json:"date"`
	Status      post.State `json:"status"`
	Attempts    int        `json:"attempts"`
	Next        string     `json:"next_attempt_at"`
	Error       string     `json:"last_error"`
	Room        string     `json:"room_id"`
	Event       string     `json:"event_id"`
	Sent        string     `json:"sent_at"`
	Removal     string     `json:"removal"`
	Attachments []struct {
		Name string `json:"name"`
		Type string `json:"type"`
		Size int64  `json:"size"` // bytes
	} `json:"attachments"`
}

// text is the body as a terminal shows it: HTML without its tags, anything else as it was sent.
func (d *delivery) text() string {
	if d.ContentType != format.HTML {
		return d.Message
	}
	_, text := format.Body(d.ContentType, d.Message)
	return text
}

func newMessagesListCommand() *cobra.Command {
	var f messagesFilter
	var limit int
	cmd := &cobra.Command{Use: "list", Short: "List messages, newest first", Args: cobra.NoArgs}
	f.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "number of messages, 1 to 200")
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		q, err := f.query(cmd.Context(), r)
		if err != nil {
			return err
		}
		q.Set("limit", strconv.Itoa(limit))
		var page struct{ Messages []delivery }
		if _, err := r.Do(cmd.Context(), http.MethodGet, "/message?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tACCEPTED\tAPPLICATION\tSTATE\tMESSAGE\tREASON")
		for _, m := range page.Messages {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.Date.UTC().Format(time.RFC3339), m.Application, m.Status, firstLine(m.Title, m.text()), m.Error)
		}
		return w.Flush()
	})
}

// firstLine is the beginning of a message.
func firstLine(title, text string) string {
	line := []rune(strings.Join(strings.Fields(title+" "+text[:min(len(text), 400)]), " "))
	if len(line) > 50 {
		return string(line[:49]) + "…"
	}
	return string(line)
}

func newMessagesShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "Show a message with its state", Args: cobra.ExactArgs(1)}
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		var m delivery
		if _, err := r.Do(cmd.Context(), http.MethodGet, "/message/"+url.PathEscape(args[0]), nil, &m); err != nil {
			return err
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		for _, line := range [][2]string{
			{"message", strconv.FormatInt(m.ID, 10)},
			{"application", m.Application},
			{"state", string(m.Status)},
			{"removal", m.Removal},
			{"reason", m.Error},
			{"next attempt", m.Next},
			{"accepted", m.Date.UTC().Format(time.RFC3339)},
			{"delivered", m.Sent},
			{"attempts", strconv.Itoa(m.Attempts)},
			{"priority", strconv.Itoa(m.Priority)},
			{"room", m.Room},
			{"event", m.Event},
			{"title", m.Title},
		} {
			if line[1] != "" {
				fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
			}
		}
		for _, a := range m.Attachments {
			fmt.Fprintf(w, "attachment\t%s (%s, %s)\n", a.Name, a.Type, web.Size(a.Size))
		}
		fmt.Fprintf(w, "\n%s\n", m.text())
		return w.Flush()
	})
}

// newMessagesChangeCommand returns a command that changes the messages given by id, or all that the filter selects.
func newMessagesChangeCommand(name, short string, states []post.State, method, suffix, done string) *cobra.Command {
	var f messagesFilter
	cmd := &cobra.Command{
		Use:   name + " [ID]…",
		Short: short,
		Long:  short + ". Give their IDs, or select them by --state " + post.OneOf(states) + " and the other filters.",
	}
	f.addFlags(cmd)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		if (len(args) == 0) == (f.state == "") {
			return errors.New("name messages by their ids, or select them by --state")
		}
		if len(args) == 0 {
			n, err := f.changeAll(cmd.Context(), r, method)
			fmt.Fprintf(cmd.OutOrStdout(), "%d %s\n", n, done)
			return err
		}
		n := 0
		for _, id := range args {
			var m delivery
			if _, err := r.Do(cmd.Context(), method, "/message/"+url.PathEscape(id)+suffix, nil, &m); err != nil {
				return fmt.Errorf("message %s: %w", id, err)
			}
			switch {
			case m.Status == post.StateRedacted:
				fmt.Fprintf(cmd.OutOrStdout(), "message %d was delivered and is removed from its room\n", m.ID)
			case m.Status == post.StateSent && m.Removal != "":
				fmt.Fprintf(cmd.OutOrStdout(), "message %d was delivered and is being removed from its room\n", m.ID)
			default:
				n++
			}
		}
		if n > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "%d %s\n", n, done)
		}
		return nil
	})
}

func (f *messagesFilter) changeAll(ctx context.Context, r *remote, method string) (n int, err error) {
	q, err := f.query(ctx, r)
	if err != nil {
		return 0, err
	}
	path := "/message/redeliver?"
	if method == http.MethodDelete {
		path = "/message/cancel?"
	}
	for more := true; more && err == nil; {
		var answer struct {
			Done int
			More bool
		}
		_, err = r.Do(ctx, http.MethodPost, path+q.Encode(), nil, &answer)
		n, more = n+answer.Done, answer.More && answer.Done > 0
	}
	return n, err
}
