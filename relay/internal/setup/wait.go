package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"slipway/relay/internal/fserror"
	"slipway/relay/internal/synapseadmin"
)

const lookAgain = 500 * time.Millisecond

// WaitFor asks the homeserver at address until it answers or ctx ends.
func WaitFor(ctx context.Context, c *synapseadmin.Client, address string) error {
	var last error
	for {
		err := c.Ready(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // an attempt that is cut short says nothing about the homeserver
			last = err
		}
		if sleep(ctx) != nil {
			return fmt.Errorf("the homeserver %s does not answer; start it, or correct matrix.homeserver (the last attempt: %w)", address, last)
		}
	}
}

// WaitForSecret reads the file of the registration secret as soon as the
// homeserver has written it.
func WaitForSecret(ctx context.Context, file string) (string, error) {
	for {
		text, err := os.ReadFile(file)
		secret := strings.TrimSpace(string(text))
		if secret != "" {
			return secret, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fserror.Explain(err, file)
		}
		if sleep(ctx) != nil {
			return "", fmt.Errorf("there is no registration secret in %s: give the file that the homeserver's registration_shared_secret_path names", file)
		}
	}
}

func sleep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lookAgain):
		return nil
	}
}

// throwaway is an account for one moment.
func throwaway() synapseadmin.Account {
	return synapseadmin.Account{Name: "slipway-" + strings.ToLower(rand.Text()), Password: rand.Text(), Admin: true}
}
