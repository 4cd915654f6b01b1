package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"slipway/registry/internal/auth"
	"slipway/shared/fileerror"
)

// htpasswd is one run of `registry htpasswd`.
type htpasswd struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	remove    bool
	fromStdin bool
	cost      int
}

// newHtpasswdCommand returns the command that creates and edits password files.
func newHtpasswdCommand(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	h := &htpasswd{stdin: stdin, stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "htpasswd FILE USER",
		Short: "Set or delete a user's password in an htpasswd file",
		Long: `Set or delete a user's password in an htpasswd file.

Prompts for the password on a terminal, otherwise reads one line from standard
input. Creates the file if necessary, readable by its owner only. A running
registry sees the change within a second.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return h.run(cmd.Context(), args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&h.remove, "delete", "D", false, "delete the user")
	flags.BoolVarP(&h.fromStdin, "password-stdin", "i", false, "read the password from standard input, without a prompt")
	flags.IntVarP(&h.cost, "cost", "C", auth.DefaultCost, "bcrypt cost: each step doubles the time of a login")
	flags.BoolP("bcrypt", "B", true, "always on; accepted for those used to Apache's htpasswd")
	return cmd
}

func (h *htpasswd) run(ctx context.Context, path, user string) error {
	// The target of a link is replaced, not the link.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	hash := ""
	if !h.remove {
		password, err := h.password(ctx, user)
		if err == nil {
			hash, err = auth.HashPassword(password, h.cost)
		}
		if err != nil {
			return err
		}
	}
	unlock, err := auth.LockPasswords(ctx, path)
	if err == nil {
		defer unlock()
	} else if errors.Is(err, auth.ErrFileBusy) || ctx.Err() != nil {
		return err // with any other error it goes on: a read-only directory or a full disk takes no lock file
	}
	content, err := os.ReadFile(path)
	if err != nil && (h.remove || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	next, err := auth.SetHash(content, user, hash)
	if err != nil {
		return err
	}
	if h.remove && bytes.Equal(next, content) {
		return fmt.Errorf("%s has no user %s", path, user)
	}
	if err := writePasswords(path, next); err != nil {
		return fileerror.Explain(filepath.Dir(path), err)
	}
	if h.remove {
		fmt.Fprintf(h.stdout, "User %s deleted from %s\n", user, path)
	} else {
		fmt.Fprintf(h.stdout, "Password of user %s set in %s\n", user, path)
	}
	return nil
}

// password asks twice on a terminal and reads one line of anything else.
func (h *htpasswd) password(ctx context.Context, user string) (string, error) {
	if f, ok := h.stdin.(*os.File); ok && !h.fromStdin && term.IsTerminal(int(f.Fd())) {
		return h.prompt(ctx, int(f.Fd()), user)
	}
	line, err := bufio.NewReader(io.LimitReader(h.stdin, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("cannot read the password: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func (h *htpasswd) prompt(ctx context.Context, fd int, user string) (string, error) {
	var answers [2]string
	for i, question := range [2]string{"New password of " + user + ": ", "Repeat the password: "} {
		fmt.Fprint(h.stderr, question)
		answer, err := readHidden(ctx, fd)
		fmt.Fprintln(h.stderr)
		if err != nil {
			return "", fmt.Errorf("cannot read the password: %w", err)
		}
		answers[i] = answer
	}
	if answers[0] != answers[1] {
		return "", errors.New("the passwords do not match")
	}
	return answers[0], nil
}

// readHidden reads a line of the terminal without showing it. An interrupt ends
// ctx but not the read, so the terminal is set right here and the read is left
// to the end of the process.
func readHidden(ctx context.Context, fd int) (string, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type result struct {
		line []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := term.ReadPassword(fd)
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		return string(r.line), r.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}
