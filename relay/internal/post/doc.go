// Package post holds the nouns of the relay and its decisions about messages: what facts mean for an entry of the outbox ([Step]), what
// a report does with an alert ([TakeReport]), which messages a digest collects ([Collect]), and when an application is quiet. It is
// pure: it knows no database, no network and no clock.
package post
