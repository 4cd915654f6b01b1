// Package collect frees the bytes that no manifest needs any more, while
// registries serve and clients push.
//
// Nothing is moved, and readers know nothing of it. What is about to be deleted is
// listed (storage.Pending); a writer who needs something listed waits a moment.
// A run publishes its name, waits for the writers who do not know it
// (storage.Coordinator.Barrier), and reads every repository. For what seems to be
// garbage it publishes the list, waits for the writers who have not seen that,
// looks again, deletes what is garbage still, and withdraws the list: once for
// each repository's links, then for the bytes to which no link leads.
//
// While nobody serves the storage, a run keeps everybody out (Exclusive) and
// deletes at once, with several workers. It goes on with lists when a server comes.
//
// model_test.go has the protocol in small, with every interleaving;
// docs/decisions/0009-garbage-collection.md has the argument.
package collect
