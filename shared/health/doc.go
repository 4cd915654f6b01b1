// Package health runs named checks in the background and reports their state:
// as a page for people and probes, and as a flag that each request can afford
// to check.
package health
