package health

import "errors"

// explained is an error with a text for the page.
type explained struct {
	text  string
	cause error
}

// Explain returns an error that the page shows as text. The log has the cause.
func Explain(text string, cause error) error { return &explained{text, cause} }

func (e *explained) Error() string { return e.text + ": " + e.cause.Error() }

func (e *explained) Unwrap() error { return e.cause }

// shown returns the text of the health page for a failed check.
func shown(err error) string {
	var e *explained
	if errors.As(err, &e) {
		return e.text
	}
	return err.Error()
}
