// Package delivery sends what is in the outbox to its Matrix rooms: in which order and at what rate, what happens when
// something on the way fails, and what is found out about attempts whose answer was lost.
//
// It reads the store whenever that has changed, sends through a [Sender], and listens to the homeserver's events.
package delivery
