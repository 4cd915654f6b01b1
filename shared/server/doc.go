// Package server listens, serves HTTP, protects itself from slow clients and
// drains at the end. Slow clients are judged by progress, never by the total
// time of a request: a large blob over a thin but living link survives.
package server
