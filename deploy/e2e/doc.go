// Package e2e proves the whole stack: the images as they are built, and
// docker-compose.yml as it is started, in a docker engine of the tests' own that
// reaches nothing outside of this machine.
package e2e
