//go:build !goolm

package main

import (
	"context"
	"errors"
)

// reader reads nothing without the library's implementation in Go.
type reader struct{}

func (s *sink) startDevices(context.Context, int) error {
	return errors.New("the bench is built without -tags goolm, which encrypted rooms need")
}

func (r *reader) hear([]byte) {}

func (r *reader) decrypt(string, string, []byte) []byte { return nil }
