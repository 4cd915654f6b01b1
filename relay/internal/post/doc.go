// Package post defines the types of the relay and its decisions about messages: the effect of a fact on an entry of the outbox ([Step]),
// the effect of a report on an alert ([TakeReport]), the messages that a digest collects ([Collect]), and quiet hours. It is pure: it uses
// no database, no network and no clock.
package post
