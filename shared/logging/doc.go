// Package logging makes the zap logger of a service and what an HTTP server
// needs around it: request ids, the access log, redaction of secrets and the
// recovery from panics.
package logging
