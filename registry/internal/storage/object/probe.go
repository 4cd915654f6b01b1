package object

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"slipway/registry/internal/storage"
)

// Findings is what a store was seen to do.
type Findings struct {
	Limits
	// Why says why a condition is not relied on, "" where all are.
	Why string
}

// racers is how many requests race for one key. A store that looks and then writes lets more
// than one through.
const racers = 8

// Probe finds out whether a store honours conditions: those that it ignores are as dangerous
// as silent. It leaves nothing behind.
func Probe(ctx context.Context, c *Client) (Findings, error) {
	f := Findings{Limits: c.limits}
	key := ".slipway/probe/" + rand.Text()
	defer func() { _ = c.Delete(context.WithoutCancel(ctx), key, &Change{}) }()
	if f.ConditionalPut {
		why, err := probePut(ctx, c, key)
		if err != nil {
			return f, err
		}
		if why != "" {
			f.ConditionalPut, f.ConditionalDelete, f.Why = false, false, why
		}
	}
	if f.ConditionalDelete {
		why, err := probeDelete(ctx, c, key)
		if err != nil {
			return f, err
		}
		if why != "" {
			f.ConditionalDelete, f.Why = false, why
		} else {
			err := c.Delete(ctx, key+"/none", &Change{If: storage.IfVersion("0123456789abcdef0123456789abcdef")})
			if errors.Is(err, storage.ErrUnavailable) {
				return f, err
			}
			f.BlindDelete = err == nil
		}
	}
	return f, nil
}

// probePut says what is wrong with conditions on PUT, "" for nothing.
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
		case errors.Is(err, storage.ErrUnavailable), ctx.Err() != nil, errors.Is(err, storage.ErrDenied):
			return "", err
		default:
			return "it refuses If-None-Match: " + err.Error(), nil
		}
	}
	if won != 1 {
		return fmt.Sprintf("of %d writers that race with If-None-Match, %d win", racers, won), nil
	}
	info, err := c.Head(ctx, key)
	if err != nil {
		return "", err
	}
	switch err := c.probe(ctx, key, "other", storage.IfVersion(wrong(info.Version))); {
	case err == nil:
		return "it ignores If-Match on PUT", nil
	case errors.Is(err, storage.ErrUnavailable):
		return "", err
	case !errors.Is(err, storage.ErrConflict):
		return "it refuses If-Match: " + err.Error(), nil
	}
	if err := c.probe(ctx, key, "last", storage.IfVersion(info.Version)); err != nil {
		why = "it does not take the ETag of its own answer for If-Match: " + err.Error()
	}
	return why, nil
}

// probe sends a put, again if it surely did nothing.
func (c *Client) probe(ctx context.Context, key, content string, cond storage.Condition) error {
	_, err := c.Put(ctx, key, []byte(content), &Change{If: cond})
	return err
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

// probeDelete says what is wrong with conditions on DELETE, "" for nothing.
func probeDelete(ctx context.Context, c *Client, key string) (why string, err error) {
	info, err := c.Head(ctx, key)
	if err != nil {
		return "", err
	}
	err = c.Delete(ctx, key, &Change{If: storage.IfVersion(wrong(info.Version))})
	switch _, lookErr := c.Head(ctx, key); {
	case errors.Is(err, storage.ErrUnavailable):
		return "", err
	case errors.Is(lookErr, storage.ErrNotExist):
		return "it ignores If-Match on DELETE", nil
	case lookErr != nil:
		return "", lookErr
	case !errors.Is(err, storage.ErrConflict):
		return fmt.Sprintf("it answers If-Match on DELETE with: %v", err), nil
	}
	return "", nil
}

// Restrict has the client rely on no more than what was found.
func (c *Client) Restrict(f Findings) { c.limits = f.Limits }
