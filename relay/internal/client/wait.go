package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"maunium.net/go/mautrix/synapseadmin"

	"slipway/shared/fileerror"
)

const pollInterval = 500 * time.Millisecond

// WaitFor blocks until the homeserver answers or ctx ends.
func WaitFor(ctx context.Context, h *Homeserver) error {
	var last error
	for {
		err := h.ready(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // an interrupted attempt tells nothing about the homeserver
			last = err
		}
		if sleep(ctx) != nil {
			return fmt.Errorf("the homeserver %s does not answer; start it, or correct matrix.homeserver (the last attempt: %w)", h.base, last)
		}
	}
}

// WaitForSecret waits for the file of the registration secret and returns its content.
func WaitForSecret(ctx context.Context, file string) (string, error) {
	for {
		text, err := os.ReadFile(file)
		secret := strings.TrimSpace(string(text))
		if secret != "" {
			return secret, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fileerror.Explain(file, err)
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
	case <-time.After(pollInterval):
		return nil
	}
}

// throwaway returns a temporary account.
func throwaway() synapseadmin.ReqSharedSecretRegister {
	return synapseadmin.ReqSharedSecretRegister{Username: "slipway-" + strings.ToLower(rand.Text()), Password: rand.Text(), Admin: true}
}
