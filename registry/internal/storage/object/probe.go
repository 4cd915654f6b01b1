package object

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

// Findings describes the behavior that a probe found in a store.
type Findings struct {
	Limits
	// Why explains why a condition is not relied on, "" where all are.
	Why string
	// NoDelete says that the account may not delete.
	NoDelete error
}

// racers is the number of requests that race for one key. A store that looks and then writes lets more
// than one through.
const racers = 8

// Probe finds out which conditions a store honors, and whether the account has the rights that it needs:
// a condition that is ignored is as dangerous as silent. Only a clear answer decides; anything else, such as
// no space or a failure that may pass, is an error. It leaves nothing behind.
func Probe(ctx context.Context, c *Client) (Findings, error) {
	f := Findings{Limits: c.limits}
	dir := private + "probe/" + rand.Text()
	key := dir + "/object"
	why, err := probePut(ctx, c, key)
	if err != nil {
		return f, err
	}
	if why != "" {
		f.ConditionalPut, f.ConditionalDelete, f.Why = false, false, why
	}
	if f.ConditionalDelete {
		if f.ConditionalDelete, f.BlindDelete, f.Why, err = probeDelete(ctx, c, key); err != nil && !errors.Is(err, storage.ErrDenied) {
			return f, err
		}
	}
	if !f.Versioned {
		if err := probeTouch(ctx, c, key, &f); err != nil {
			return f, err
		}
	}
	err = c.Delete(ctx, key, &WriteOptions{})
	if errors.Is(err, storage.ErrDenied) {
		f.NoDelete = lacks(f.DeleteRight, err)
		return f, nil
	}
	if err == nil {
		f.ListsDeleted, err = probeList(ctx, c, dir)
	}
	return f, err
}

// probeList reports whether a listing has a prefix below which everything was deleted.
func probeList(ctx context.Context, c *Client, dir string) (bool, error) {
	for _, err := range c.List(ctx, dir, ListOptions{Delimited: true}) {
		return err == nil, err
	}
	return false, nil
}

// lacks names the right of a request that was denied.
func lacks(right string, err error) error {
	if errors.Is(err, storage.ErrDenied) {
		return fmt.Errorf("the account lacks the right %s: %w", right, err)
	}
	return err
}

// probePut describes what is wrong with conditions on PUT, "" for nothing.
func probePut(ctx context.Context, c *Client, key string) (why string, err error) {
	var all sync.WaitGroup
	answers := make([]error, racers)
	for i := range answers {
		all.Go(func() { answers[i] = c.probe(ctx, key, fmt.Sprint("racer ", i), storage.IfAbsent()) })
	}
	all.Wait()
	won := 0
	for _, err := range answers {
		switch {
		case err == nil:
			won++
		case errors.Is(err, storage.ErrConflict):
		case errors.Is(err, errors.ErrUnsupported):
			why = "it refuses If-None-Match: " + err.Error()
		default:
			return "", err
		}
	}
	if why != "" { // it may have refused all of them
		return why, c.probe(ctx, key, "plain", storage.Condition{})
	}
	if won != 1 {
		return fmt.Sprintf("of %d writers that race with If-None-Match, %d win", racers, won), nil
	}
	info, err := c.Head(ctx, key)
	if err != nil {
		return "", lacks(c.limits.GetRight, err)
	}
	switch err := c.probe(ctx, key, "other", storage.IfVersion(wrong(info.Version))); {
	case err == nil:
		return "it ignores If-Match on PUT", nil
	case errors.Is(err, errors.ErrUnsupported):
		return "it refuses If-Match: " + err.Error(), nil
	case !errors.Is(err, storage.ErrConflict):
		return "", err
	}
	err = c.probe(ctx, key, "last", storage.IfVersion(info.Version))
	if errors.Is(err, storage.ErrConflict) {
		return "it does not take the ETag of its own answer for If-Match: " + err.Error(), nil
	}
	return "", err
}

// probe sends a put, again if it surely did nothing.
func (c *Client) probe(ctx context.Context, key, content string, cond storage.Condition) error {
	_, err := c.Put(ctx, key, []byte(content), &WriteOptions{If: cond})
	return lacks(c.limits.PutRight, err)
}

// wrong is a version like v that no object has.
func wrong(v string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '8' {
			return r + 1
		}
		return r
	}, v)
}

// probeDelete finds out about conditions on DELETE. why describes what is wrong with them.
func probeDelete(ctx context.Context, c *Client, key string) (conditional, blind bool, why string, err error) {
	info, err := c.Head(ctx, key)
	if err != nil {
		return false, false, "", err
	}
	err = c.Delete(ctx, key, &WriteOptions{If: storage.IfVersion(wrong(info.Version))})
	if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, errors.ErrUnsupported) {
		return false, false, "", err
	}
	switch _, lookErr := c.Head(ctx, key); {
	case errors.Is(lookErr, storage.ErrNotExist):
		return false, false, "it ignores If-Match on DELETE", c.probe(ctx, key, "again", storage.Condition{})
	case lookErr != nil:
		return false, false, "", lookErr
	case !errors.Is(err, storage.ErrConflict):
		return false, false, fmt.Sprintf("it answers If-Match on DELETE with: %v", err), nil
	}
	err = c.Delete(ctx, key+"/none", &WriteOptions{If: storage.IfVersion("0123456789abcdef0123456789abcdef")})
	if err != nil && !errors.Is(err, storage.ErrConflict) {
		return false, false, "", err
	}
	return true, err == nil, "", nil
}

// probeTouch finds out whether a renewal works. Clocks have whole seconds, so it takes more than one.
func probeTouch(ctx context.Context, c *Client, key string, f *Findings) error {
	before, err := c.Head(ctx, key)
	if err == nil {
		err = sleep(ctx, touchWait)
	}
	if err == nil {
		err = c.touch(ctx, key, before.Version, &WriteOptions{})
	}
	if errors.Is(err, errors.ErrUnsupported) {
		f.NoTouch = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot renew an object: %w", err)
	}
	after, err := c.Head(ctx, key)
	f.NoTouch = !after.Modified.After(before.Modified)
	return err
}

const touchWait = 1100 * time.Millisecond

// Restrict has the client rely on no more than what was found.
func (c *Client) Restrict(f Findings) { c.limits = f.Limits }
