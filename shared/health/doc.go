// Package health runs named checks in the background and tells how they stand:
// as a page for people and probes, and as a flag that each request can afford
// to look at.
package health
