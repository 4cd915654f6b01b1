package command

import "errors"

// Exit codes of the programs, beside 0. docs/command-line.md describes them.
const (
	failed      = 1
	usage       = 2
	refused     = 3
	undelivered = 4
)

// coded is an error with an exit code.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// Usage marks err as wrong usage of a command: exit code 2.
func Usage(err error) error { return withCode(err, usage) }

// Refused marks err as a refusal by the service, a rule or the person who was asked: exit code 3.
func Refused(err error) error { return withCode(err, refused) }

// Undelivered marks err as the fate of a message that is stored but not delivered: exit code 4.
func Undelivered(err error) error { return withCode(err, undelivered) }

func withCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return coded{err, code}
}

func exitCode(err error) int {
	var c coded
	switch {
	case err == nil:
		return 0
	case errors.As(err, &c):
		return c.code
	default:
		return failed
	}
}
